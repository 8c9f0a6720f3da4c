"""Where the promises come from: which one holds which rule, which published check, and which bug that others have had.

Each entry names promises (tests without ``test_``). The checks are those of inspect_ai 0.3.285
(``inspect_ai/util/_sandbox/self_check.py``); the reports are public threads of other projects.
"""

from __future__ import annotations

Table = dict[str, tuple[str, ...]]

# The rules of exec, of quotas, of errors, of the world inside and of the host process.
RULES: Table = {
    "A text is for /bin/sh, long ones too": ("a_text_runs_through_sh", "a_long_script_runs", "a_script_keeps_its_bytes"),
    "A sequence is argv, 1 MiB in all, an element below 128 KiB": (
        *("a_sequence_runs_without_a_shell", "a_mebibyte_of_arguments_arrives", "an_element_that_cannot_be_passed_is_refused"),
        *("arguments_of_any_bytes_arrive", "what_is_no_command_is_refused"),
    ),
    "Input of 50 MiB": ("fifty_mebibytes_of_input", "input_and_output_at_once_do_not_block"),
    "stdin is at its end unless there is input": ("without_input_stdin_is_at_its_end", "empty_input_is_eof_too"),
    "Nothing is inherited from the host": (
        *("the_hosts_environment_is_hidden", "the_hosts_descriptors_are_closed", "signals_are_as_after_boot"),
        *("the_umask_is_022", "the_default_directory_is_the_workspace"),
    ),
    "A non-zero exit is a result": ("the_exit_code_is_the_commands_own", "an_own_exit_126_or_127_is_no_start_error"),
    "127, 126 and start_error": (
        *("a_missing_program_is_127", "a_file_that_is_not_executable_is_126", "a_directory_is_126"),
        *("a_text_without_a_hash_bang_is_126", "a_missing_interpreter_is_a_start_error"),
    ),
    "An empty command or a NUL is refused": ("an_empty_command_is_refused", "a_nul_is_refused"),
    "128 + n": ("death_by_a_signal_is_128_plus_n",),
    "A dead sandbox is an error, never a result": (
        *("a_lost_sandbox_is_an_error_not_a_result", "a_lost_sandbox_fails_every_verb", "a_loss_is_told_once"),
        "a_loss_while_nothing_runs_is_told",
    ),
    "A fault is set by the sandbox alone": ("a_fault_cannot_be_forged", "a_quick_death_is_not_a_timeout"),
    "check maps each fault to one error": (
        *(
            "check_raises_for_a_failure_with_the_result",
            "check_maps_a_timeout",
            "check_maps_a_kill",
            "check_says_what_happened",
        ),
        "too_much_output_is_a_fault",
    ),
    "A time-out ends every process of the command and nothing else": (
        *("a_timeout_reaches_every_process", "a_timeout_does_not_wait_for_consent", "the_sandbox_survives_a_timeout"),
        *("a_stopped_command_times_out", "a_stopped_job_stays_stopped", "each_command_has_its_own_time_out"),
        *(
            "a_time_out_counts_while_nobody_reads",
            "a_time_out_does_not_wait_for_input_to_go",
            "impossible_time_outs_are_refused",
        ),
    ),
    "exec returns though a background child lives, and says lingering": (
        *(
            "a_background_child_does_not_hold_the_call",
            "a_silent_background_child_is_told_of",
            "nothing_lingers_after_a_plain_command",
        ),
        *("a_lingering_childs_output_is_drained", "closing_ends_what_lingers", "closing_its_output_does_not_end_a_command"),
    ),
    "Output is bytes; text is UTF-8 with replacement and never splits a character": (
        *(
            "bytes_are_exact",
            "text_is_utf8_with_replacement",
            "a_character_is_not_split_between_chunks",
            "a_cut_character_is_replaced",
        ),
        *("each_stream_has_its_own_decoder", "an_unfinished_character_is_handed_over"),
    ),
    "max_output a stream: head, tail and the exact number left out": (
        *("head_and_tail_are_kept", "output_just_at_the_bound_is_whole", "a_few_bytes_are_head_and_tail"),
        *("each_stream_has_its_own_bound", "one_endless_line_is_bounded"),
    ),
    "Callbacks see everything": (
        *(
            "callbacks_see_everything",
            "callbacks_get_their_own_stream",
            "chunks_arrive_before_the_end",
            "chunks_keep_their_order",
        ),
        *("a_slow_callback_slows_the_command", "a_callback_that_raises_ends_the_command"),
    ),
    "stderr=merge interleaves": ("merged_stderr_interleaves", "merged_output_has_one_callback"),
    "Quotas.output ends the command": (
        "too_much_output_is_a_fault",
        "the_output_quota_counts_both_streams_of_one_command",
    ),
    "Cancelling ends the command, then goes on": (
        *("cancelling_ends_the_command", "cancelling_twice_is_no_more_than_once", "cancelling_one_leaves_the_others"),
        *("cancelling_reaches_a_callback", "a_cancelled_start_leaves_no_command", "cancelling_a_wait_leaves_the_command"),
        *("a_cancelled_verb_leaves_the_sandbox", "a_cancelled_creation_leaves_nothing", "a_cancelled_close_closes"),
    ),
    "Commands run at once without mixing": (
        *("commands_run_concurrently_without_mixing", "a_slow_command_delays_no_other", "file_verbs_run_at_once"),
        *("two_writers_do_not_mix", "twenty_sandboxes_at_once", "closing_ends_every_pending_call"),
    ),
    "Handles": (
        *(
            "start_gives_a_live_handle",
            "a_conversation_over_stdin",
            "iteration_sees_everything_in_order",
            "wait_is_the_same_every_time",
        ),
        *("a_signal_reaches_the_command", "a_signal_reaches_the_commands_children", "kill_ends_every_process"),
        *(
            "leaving_the_context_ends_the_command",
            "a_program_that_does_not_start_has_a_handle",
            "impossible_signals_are_refused",
        ),
        *("there_is_no_terminal_to_resize", "a_started_command_can_have_a_time_out", "unread_output_is_not_lost"),
    ),
    "A quota or policy is enforced or refused": (
        *(
            "every_quota_is_enforced_or_refused",
            "every_policy_is_enforced_or_refused",
            "a_part_of_a_cpu_is_enforced_or_refused",
        ),
        *("open_files_are_bounded", "the_record_says_how_each_limit_is_held", "what_cannot_be_done_is_refused_by_name"),
        *("a_user_is_honoured_or_refused", "renew_is_honoured_or_refused"),
    ),
    "A sandbox ends with its owner, or stays as long as its lifetime says": (
        *("a_killed_host_leaves_nothing_running", "an_owned_sandbox_is_not_let_go", "an_owned_sandbox_is_not_connected_to"),
        *("a_life_is_honoured_or_refused", "an_impossible_life_is_refused", "it_outlives_its_maker"),
        *("it_outlives_a_maker_that_leaves", "a_lifetime_ends_it", "renew_sets_a_new_end", "an_impossible_renewal_is_refused"),
        *(
            "idle_time_ends_it",
            "a_command_is_no_idle_time",
            "a_kept_command_is_no_idle_time",
            "its_end_is_no_result",
            "a_crash_is_told",
        ),
    ),
    "close destroys, detach and leaving connect let go": (
        *("leaving_a_connection_lets_go", "detach_lets_go", "leaving_a_creation_closes", "closing_a_connection_destroys"),
        *("letting_go_ends_own_commands_alone", "a_killed_client_ends_its_own_commands"),
        *("after_a_fork_a_connection_is_closed", "a_connection_has_its_own_events"),
        "a_plain_with_on_a_connection_says_what_to_write",
    ),
    "Kept commands go on when their client goes": (
        *("a_kept_command_outlives_its_client", "letting_go_leaves_kept_commands"),
    ),
    "A connection is as good as the handle that made it, and several are": (
        *("a_connection_sees_what_was_made", "a_connection_runs_as_the_maker_does", "quotas_hold_for_a_connection"),
        *("clients_at_once", "clients_commands_do_not_mix"),
    ),
    "list_sandboxes, kill_sandbox and reap": (
        *("a_list_has_it", "an_owned_one_is_in_the_list", "kill_says_what_it_found", "reap_spares_the_living"),
        "what_is_no_id_is_refused",
    ),
    "One idempotency key is one sandbox": (
        *("one_key_is_one_sandbox", "a_key_is_used_once", "one_key_is_one_sandbox_across_processes"),
        "a_cancelled_creation_may_be_tried_again",
    ),
    "A waiver is the one way around, and on record": ("an_unsupported_quota_may_be_waived", "a_waiver_is_in_the_record"),
    "A minimum of isolation": ("min_isolation_is_held",),
    "One tree of errors, with code, retryable and outcome": ("every_error_speaks_to_programs", "errors_pickle"),
    "File errors are the standard library's, with the path": (
        *("errors_are_the_standard_ones", "file_errors_carry_errno_and_path", "a_file_in_the_way_is_not_a_directory"),
        *("a_missing_directory_is_the_standard_error", "permissions_hold_for_verbs"),
    ),
    "No error shows a secret": (
        *("a_refused_value_is_not_repeated", "no_secret_is_in_an_error_of_a_command", "a_record_shows_no_secret"),
        *("results_pickle_and_hide_output", "a_secret_is_in_no_command_line"),
    ),
    "The world inside": (
        *("the_world_inside_is_the_documented_one", "the_umask_is_022", "there_are_no_core_files"),
        *("an_environment_goes_from_sandbox_to_command", "values_arrive_exactly", "every_byte_of_a_value_arrives"),
    ),
    "Files of a mounted workspace belong to its owner": ("a_given_workspace_stays",),
    "The blocking interface": (
        *("blocking_calls_are_plain_calls", "callbacks_run_in_the_callers_thread", "an_async_callback_is_refused"),
        *("threads_share_a_handle", "ctrl_c_ends_the_command", "a_running_loop_is_refused"),
        *("a_callback_of_the_async_interface_does_not_block", "close_from_another_thread_ends_a_call"),
    ),
    "An async handle belongs to its loop": ("an_async_handle_belongs_to_its_loop",),
    "After os.fork a handle is closed": ("after_a_fork_a_handle_is_closed", "after_a_fork_a_blocking_handle_is_closed"),
    "Handles do not pickle, records do": (
        "handles_do_not_pickle_results_do",
        "info_is_a_record",
        "results_pickle_and_hide_output",
    ),
    "No argv in the log": ("commands_are_not_logged",),
    "A sandbox ends with its owner": (
        "a_killed_host_leaves_nothing_running",
        "leaving_the_context_closes",
        "close_is_idempotent",
    ),
    "Options are checked when create is called": (
        *(
            "options_are_checked_when_called",
            "a_creation_that_is_not_awaited_makes_nothing",
            "a_plain_with_says_what_to_write",
        ),
        *("labels_come_back", "a_start_that_takes_too_long_is_an_error"),
    ),
    "Events": ("events_tell_the_life", "birth_and_end_are_events", "a_failing_event_sink_changes_nothing"),
}

INSPECT_CHECKS: Table = {
    "read_and_write_file_text": ("text_and_bytes_come_back",),
    "write_file_text_utf": ("text_and_bytes_come_back", "two_mebibytes_of_text_come_back"),
    "read_and_write_file_binary": ("text_and_bytes_come_back", "bytes_that_are_no_text_are_told"),
    "read_and_write_large_file_binary": ("a_large_file_comes_back",),
    "read_and_write_file_including_directory_absolute": ("parents_are_made",),
    "read_and_write_file_including_directory_relative": ("parents_are_made",),
    "read_file_zero_length": ("text_and_bytes_come_back",),
    "read_file_not_found": ("errors_are_the_standard_ones", "file_errors_carry_errno_and_path"),
    "read_file_not_allowed": ("permissions_hold_for_verbs",),
    "read_file_is_directory": ("errors_are_the_standard_ones",),
    "read_file_nonsense_name": ("a_url_is_a_path",),
    "read_file_limit": ("a_part_of_a_file_is_read", "an_endless_file_is_refused"),
    "write_text_file_zero_length": ("text_and_bytes_come_back",),
    "write_text_file_space": ("hostile_names_are_names",),
    "write_text_file_is_directory": ("errors_are_the_standard_ones",),
    "write_text_file_without_permissions": ("permissions_hold_for_verbs",),
    "write_text_file_exists": ("overwrite_append_and_mode",),
    "write_binary_file_zero_length": ("text_and_bytes_come_back",),
    "write_binary_file_space": ("hostile_names_are_names",),
    "write_binary_file_is_directory": ("errors_are_the_standard_ones",),
    "write_binary_file_without_permissions": ("permissions_hold_for_verbs",),
    "write_binary_file_exists": ("overwrite_append_and_mode",),
    "exec_output": ("streams_stay_separate",),
    "exec_stderr": ("streams_stay_separate",),
    "exec_output_utf": ("text_is_utf8_with_replacement",),
    "exec_stderr_utf": ("bytes_are_exact", "each_stream_has_its_own_decoder"),
    "exec_returncode": ("the_exit_code_is_the_commands_own",),
    "exec_timeout": ("a_timeout_is_a_fault_with_the_output_so_far", "check_maps_a_timeout"),
    "exec_timeout_not_raised_on_fast_signal_death": ("a_quick_death_is_not_a_timeout",),
    "exec_timeout_kills_process": ("a_timeout_reaches_every_process",),
    # Upstream's starts no child: all after its first "#" is a comment. Ours looks for children that were seen to run.
    "exec_timeout_kills_child_processes": ("a_timeout_reaches_every_process", "cancelling_ends_the_command"),
    "exec_permission_error": ("a_file_that_is_not_executable_is_126",),
    "exec_env_vars": ("values_arrive_exactly",),
    "exec_input_text": ("input_arrives_byte_for_byte", "empty_input_is_eof_too"),
    "exec_input_shell_special": ("input_arrives_byte_for_byte",),
    "exec_input_binary": ("input_arrives_byte_for_byte",),
    "exec_input_large": ("fifty_mebibytes_of_input",),
    "exec_large_command": ("a_mebibyte_of_arguments_arrives",),
    "exec_as_user": ("a_user_is_honoured_or_refused",),
    "exec_as_nonexistent_user": ("a_user_is_honoured_or_refused",),
    "cwd_unspecified": ("the_default_directory_is_the_workspace", "commands_and_verbs_see_one_file_system"),
    "cwd_custom": ("cwd_is_relative_to_the_workspace",),
    "cwd_relative": ("cwd_is_relative_to_the_workspace", "a_hostile_working_directory"),
    "cwd_absolute": ("cwd_is_relative_to_the_workspace",),
}

REPORTS: Table = {
    "1. A background child keeps the pipe (deer-flow PR 3864, docker-agent PR 2462)": (
        "a_background_child_does_not_hold_the_call",
    ),
    "2. stdin is the host's (SWE-ReX PR 281, microsandbox 1549)": ("without_input_stdin_is_at_its_end",),
    "3. A time-out leaves processes (inspect_ai 1357, 1585, 2779)": ("a_timeout_reaches_every_process",),
    "4. A time-out ends the whole sandbox (agent-governance-toolkit PR 1954)": ("the_sandbox_survives_a_timeout",),
    "5. Killing by a pattern of the command's text": ("the_same_text_twice_is_two_commands",),
    "6. The image's own timeout or sh is run (OpenEnv PR 1018, inspect_ai PR 5359)": ("a_planted_program_is_not_ours",),
    "7. Output that is no UTF-8 raises (inspect_k8s_sandbox 206, SWE-agent 697)": ("text_is_utf8_with_replacement",),
    "8. A character in two chunks is two (openai-agents-js PR 1751)": ("a_character_is_not_split_between_chunks",),
    "9. Output fills the host's memory (inspect_ai PR 781, haiku.rag 623)": (
        "one_endless_line_is_bounded",
        "head_and_tail_are_kept",
    ),
    "10. Full pipes block each other (sandlock 149)": (
        "two_full_streams_do_not_block",
        "input_and_output_at_once_do_not_block",
    ),
    "11. A lost backend reads as success (cloudflare sandbox-sdk 873)": ("a_lost_sandbox_is_an_error_not_a_result",),
    "12. A shell that dies breaks the session (cloudflare sandbox-sdk 438, PR 632)": ("a_shell_that_dies_harms_nobody",),
    "13. Concurrent commands mix (deer-flow 1433, mirage 411)": ("commands_run_concurrently_without_mixing",),
    "14. A killed host leaves orphans (llxprt-code 3449, traceroot 2101)": ("a_killed_host_leaves_nothing_running",),
    "17. Commands cannot change what verbs wrote (moby 21651)": ("commands_and_verbs_see_one_file_system",),
    "18. Paths are pasted into shell text (llm-sandbox 147, deepagents 1483)": (
        *("hostile_names_are_names", "hostile_directories_are_names", "a_hostile_working_directory", "a_hostile_program_name"),
        "commands_and_verbs_agree_on_names",
    ),
    "19. Long arguments and texts fail (deepagents 872, agentscope-java 2618)": (
        *("a_mebibyte_of_arguments_arrives", "a_long_script_runs", "two_mebibytes_of_text_come_back"),
    ),
    "20. The host's environment leaks (openai-agents PR 4617, nanobot 4783)": ("the_hosts_environment_is_hidden",),
    "21. Secrets stand in argv and logs (hermes-agent 96268, benchflow 412)": (
        *("a_secret_is_in_no_command_line", "no_secret_is_in_an_error_of_a_command", "commands_are_not_logged"),
    ),
    "22. A policy is dropped in silence (PraisonAI 4302)": (
        "every_quota_is_enforced_or_refused",
        "every_policy_is_enforced_or_refused",
    ),
    "23. Out of memory reads as something else (inspect-action 248, agent-os 2372)": (
        *("memory_over_the_quota_is_oom", "oom_ends_the_command_that_used_the_memory", "a_fault_cannot_be_forged"),
    ),
    "24. The event loop stands still (openai-agents 4675, deepagents 6018)": ("the_event_loop_goes_on",),
    "29. The output so far is lost with a time-out (SWE-ReX 29)": ("a_timeout_is_a_fault_with_the_output_so_far",),
    "30. Reading an endless file fills memory (deepagents 4408)": ("an_endless_file_is_refused", "a_device_is_no_file"),
}
