/* The wire between host and helper, version PROTOCOL_VERSION. The host's half is _shared/protocol.py, requests.py and answers.py;
 * docs/decisions/0003 says why it looks like this, and 0015 how more than one client talks to one helper.
 *
 * Every message is a frame: u32 payload length, u16 type, u16 number of descriptors that travel with it; then the
 * payload. Integers are little-endian. Frames of many commands share one stream, told apart by the command's id. As a
 * negotiated short cut (feature bit FEATURE_FDS) a START carries the command's pipes as descriptors, and its reports come
 * back on a status pipe of its own, so that no process has to relay or demultiplex anything.
 */
#ifndef ISANDBOX_PROTOCOL_H
#define ISANDBOX_PROTOCOL_H

#include "base.h"

#define PROTOCOL_VERSION 4
#define FEATURE_FDS 1

#define FRAME_HEADER 8
#define FRAME_MAX (4u << 20) /* a START with 1 MiB of argv and as much environment fits; more is refused */

enum frame_type {
  /* helper to host */
  FRAME_HELLO = 1,    /* struct hello, as many reports as it says; to a client that came later with the note's descriptor */
  FRAME_ERROR = 2,    /* u32 errno, stage\0 object\0: the start failed */
  FRAME_LAUNCHED = 3, /* u32 pid of the sandbox's first process, as the host sees it; detached: and u32 pid of its doorkeeper */
  FRAME_STARTED = 4,  /* struct started_report */
  FRAME_EXIT = 5,     /* struct exit_report */
  FRAME_GOODBYE = 6,  /* u32 enum farewell: to every client, before the helper ends of its own accord */
  FRAME_OMITTED = 7,  /* struct omitted_report: on a viewer's status pipe, before EXIT */
  /* host to helper */
  FRAME_START = 16,  /* struct start_request, cwd\0, argv..., env... */
  FRAME_KILL = 17,   /* u32 id, fault: end every process of the command */
  FRAME_SIGNAL = 18, /* u32 id, signal: to the command's process group */
  FRAME_RESIZE = 19, /* struct resize_request */
  FRAME_ATTACH = 20, /* struct attach_request: one more viewer for a kept command */
  FRAME_ASK = 21,    /* struct ask_request and one descriptor, which the answer is written to */
  FRAME_SHUTDOWN = 22,  /* nothing: everything ends */
  FRAME_RELEASE = 23,   /* nothing: from here on a detached sandbox does not end with its creator */
  FRAME_STDIN_EOF = 24, /* u32 id: after the last byte in the command's stdin pipe its input has ended */
};

enum fault {
  FAULT_NONE = 0,
  FAULT_TIMEOUT = 1,
  FAULT_OOM = 2,
  FAULT_CPU = 3,
  FAULT_OUTPUT = 4,
  FAULT_CANCELLED = 5,
  FAULT_KILLED = 6,
};

/* What the sandbox refused while a command ran: bits of exit_report.limits. */
enum limit { LIMIT_PIDS = 1, LIMIT_DISK = 2, LIMIT_OPEN_FILES = 4, LIMIT_FILE_SIZE = 8 };

/* The kernel's counters of a command's cgroup: one descriptor each, in this order, for every bit of start_request.meters. */
enum meter {
  METER_MEMORY,   /* memory.events, or memory.oom_control of cgroup v1: "oom_kill N" */
  METER_PIDS,     /* pids.events of the command's group: "max N" */
  METER_PIDS_ALL, /* pids.events of the whole sandbox's group */
  METER_CPU,      /* cpu.stat: "usage_usec N"; or cpuacct.usage of v1: nanoseconds */
  METERS
};
#define MAX_JOINS 4 /* cgroup v1 has a hierarchy per controller */

/* Where a command failed before its program ran. */
enum start_stage { STAGE_NONE = 0, STAGE_STDIO = 1, STAGE_IDENTITY = 2, STAGE_CWD = 3, STAGE_EXEC = 4, STAGE_FILE = 5, STAGE_ATTACH = 6 };

enum start_flags {
  START_STDIN = 1,        /* a stdin descriptor follows; without it the command reads /dev/null */
  START_MERGE = 2,        /* stderr goes where stdout goes: no descriptor for it */
  START_SCRIPT = 4,       /* one more descriptor, which the command gets as fd 3 */
  START_WANT_STARTED = 8, /* send STARTED as well as EXIT */
  START_KEPT = 16,        /* the command goes on when its client goes, and its last output is kept */
  START_TERMINAL = 32,    /* its standard streams are a terminal; no descriptor for stderr */
};

struct start_request {
  u32 id, flags, timeout_ms; /* 0: no time-out */
  u32 operation;             /* 0: run argv; else enum file_operation on argv[0] */
  u32 argc, envc;
  u32 joins;  /* descriptors of cgroup.procs files that the command joins before its program runs */
  u32 meters; /* 1 << enum meter */
  u32 keep;   /* bytes kept of each stream of a relayed command */
  u16 rows, columns;
  u64 output_quota; /* bytes of all streams of a kept command, after which it is ended; 0: no end */
};

/* Serial: what a kept command is called as long as the sandbox lives, 0 for another. First: of each stream, how many bytes came
 * before the first that will arrive. */
struct started_report { u32 id, pid, serial, pad; u64 first_out, first_err; };

struct omitted_report { u32 id, pad; u64 out, err; };

enum farewell { GOODBYE_SHUTDOWN = 1, GOODBYE_LIFETIME = 2, GOODBYE_IDLE = 3 };

struct resize_request { u32 id; u16 rows, columns; };

/* Id: the client's own name for the command from here on. Flags: START_STDIN, START_MERGE. Since: the first byte wanted of each
 * stream; ~0 for what comes from now on. */
struct attach_request { u32 id, serial, flags, pad; u64 since_out, since_err; };

enum question { ASK_STATUS = 1, ASK_COMMANDS = 2, ASK_RENEW = 3 };
struct ask_request { u32 what, id; u64 value; }; /* value: of RENEW, milliseconds from now */

#define STATUS_VERSION 1
struct status_answer {
  u32 version, clients, commands, kept;
  u64 lifetime_left_ms; /* ~0: no end */
  u64 idle_timeout_ms;  /* 0: none */
  u64 age_ms;
};

enum command_state { COMMAND_RUNNING = 1, COMMAND_ENDED = 2 };
enum command_flags { COMMAND_TERMINAL = 1, COMMAND_STDIN = 2 };

/* The answer to COMMANDS: this, then COUNT of the other, newest last. */
struct commands_answer { u32 count, record_bytes; };
struct command_record {
  u32 serial, pid, state;
  i32 wait_status;
  u32 fault, flags;
  u64 age_ms, written_out, written_err, first_out, first_err;
  char name[256]; /* the arguments, with spaces between them, cut */
};
#define COMMANDS_MOST 64

struct exit_report {
  u32 id;
  i32 wait_status; /* as wait4 gives it */
  u32 fault, limits, start_errno, start_stage;
  u32 lingering; /* processes of the command still live */
  u32 maxrss_kb;
  u64 utime_us, stime_us, duration_us;
};

/* Layers, in the order of their reports. */
enum layer {
  LAYER_USER_NAMESPACE = 1,
  LAYER_MOUNT_NAMESPACE = 2,
  LAYER_PID_NAMESPACE = 3,
  LAYER_IPC_NAMESPACE = 4,
  LAYER_UTS_NAMESPACE = 5,
  LAYER_CGROUP_NAMESPACE = 6,
  LAYER_NET_NAMESPACE = 7,
  LAYER_IDS = 8,
  LAYER_GROUPS = 9,
  LAYER_SPLIT_UID = 10,
  LAYER_MOUNTS = 11,
  LAYER_CAPABILITIES = 12,
  LAYER_NO_NEW_PRIVS = 13,
  LAYER_DUMPABLE = 14,
  LAYER_KEYRING = 15,
  LAYER_LANDLOCK = 16,
  LAYER_SECCOMP = 17,
  LAYER_DESCRIPTORS = 18,
};
#define LAYERS 18

/* NOT_PLANNED: the plan leaves the layer out. NOT_IN_EFFECT: it was to be there, and a probe got through; detail says which. */
enum verdict { VERDICT_ENFORCED = 0, VERDICT_NOT_PLANNED = 1, VERDICT_NOT_IN_EFFECT = 2 };

struct layer_report { u16 layer, verdict; u32 detail; };

struct hello {
  u32 version, features, landlock_abi, layers; /* layers: how many reports follow; none from a helper that isolates nothing */
  u32 client, pad; /* 0: whoever made the sandbox; others count from 1, and no number comes twice */
  u64 filter;                                  /* a hash of the filter that was loaded */
  struct layer_report reports[LAYERS];
};

long send_frame (int fd, u32 type, const void *payload, size_t len);
void send_error (u32 error, const char *text, size_t len);

#endif
