/* What the server keeps between two rounds, for a target that puts it back after each input. */
#ifndef ISANDBOX_SERVER_STATE_H
#define ISANDBOX_SERVER_STATE_H

#include "loop.c"
#include "clients.c"

static void
put_server_back (void)
{
  memset (&creator, 0, sizeof creator);
  clients = NULL;
  clients_count = last_number = 0;
  released = 0;
  sources = NULL;
  last = &sources;
  count = in_round = 0;
  polls = few_polls;
  told = few_told;
  room = FEW;
}

#endif
