/* Questions of a client. The answer goes to a descriptor that came with the question, so that nobody has to sort answers. */
#include "clients.h"
#include "relay.h"

void
ask_answer (int fd, const void *answer, size_t len)
{
  /* A socket takes an answer of this size at once, or somebody has filled or closed it, and then nobody wants it. */
  SYS (sendto, fd, answer, len, MSG_DONTWAIT | MSG_NOSIGNAL, 0, 0);
}

static void
tell_status (int fd)
{
  struct status_answer answer = { .version = STATUS_VERSION, .clients = clients_count, .commands = commands_alive, .kept = relay_count_kept () };
  life_tell (&answer);
  ask_answer (fd, &answer, sizeof answer);
}

static void
tell_commands (int fd)
{
  static u8 answer[RELAY_LIST_MOST];
  ask_answer (fd, answer, relay_list (answer, sizeof answer));
}

const char *
ask (const u8 *payload, size_t len, int fd)
{
  struct ask_request request;
  if (len != sizeof request)
    return "frame length";
  memcpy (&request, payload, sizeof request);
  switch (request.what)
    {
    case ASK_STATUS:
      tell_status (fd);
      return NULL;
    case ASK_COMMANDS:
      tell_commands (fd);
      return NULL;
    case ASK_RENEW:
      life_renew (request.value);
      tell_status (fd);
      return NULL;
    default:
      return "unknown question";
    }
}
