"""Command lines that hold another command line: where ours ends and the other begins."""

from __future__ import annotations

import click

DASHES = "--"
_OF_A_TERMINAL = ("-i", "-t", "--interactive", "--tty")


class Number(click.IntRange):
    """A whole number, which errors call one."""

    name = "number"


class WithoutTerminal(click.Command):
    """Says where the terminal is that ``-i -t`` ask for elsewhere."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name not in _OF_A_TERMINAL:
                raise
            raise click.UsageError(
                f"{ctx.info_name} gives CMD pipes and passes stdin on; a terminal has: isandbox shell -- CMD", ctx
            ) from None


class OneThenCommand(click.Command):
    """``[OPTIONS] ID [--] CMD...``: our options stand before ID or, where two dashes follow, after it too. What comes behind CMD
    is never ours, two dashes among it neither.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.allow_interspersed_args = DASHES in args and self._names_one(ctx, args[: args.index(DASHES)])
        rest = super().parse_args(ctx, args)
        command = ctx.params.get("command") or ()
        if not ctx.allow_interspersed_args and command and command[0].startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(
                f"{command[0]!r} stands where the command begins; options come before ID, or before --", ctx
            )
        return rest

    def _names_one(self, ctx: click.Context, head: list[str]) -> bool:
        ctx.allow_interspersed_args = True
        try:
            found, _, _ = self.make_parser(ctx).parse_args(list(head))
        except click.UsageError:
            return False
        command = found.get("command")  # where there is none, each version of click has another word for it
        return isinstance(found.get("id"), str) and not (isinstance(command, tuple) and command)


class MaybeThenCommand(click.Command):
    """``[OPTIONS] [ID] [-- CMD...]``: what follows the first two dashes is CMD, given as ``command``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index(DASHES) if DASHES in args else len(args)
        rest = super().parse_args(ctx, args[:at])
        ctx.params["command"] = tuple(args[at + 1 :])
        return rest

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- CMD...]"]
