"""Numbers of the system calls that probes make by number, because Python has no function for them.

Source: Linux 6.18, arch/x86/entry/syscalls/syscall_64.tbl and scripts/syscall.tbl; a test compares them with the table that
the `seccomp` backend's filter is made from.
"""

from __future__ import annotations

_X86_64 = """
ioctl=16 shmget=29 shmat=30 shmctl=31 dup=32 socket=41 socketpair=53 clone=56 kill=62 semget=64 semop=65 semctl=66 msgget=68
msgsnd=69 msgrcv=70 msgctl=71 fcntl=72 getcwd=79 chmod=90 ptrace=101 syslog=103 setuid=105 setgid=106 setgroups=116
setresuid=117 setresgid=119 capset=126 rt_sigqueueinfo=129 uselib=134 personality=135 ustat=136 sysfs=139 setpriority=141
sched_setparam=142 sched_setscheduler=144 vhangup=153 modify_ldt=154 pivot_root=155 _sysctl=156 prctl=157 arch_prctl=158
adjtimex=159 chroot=161 acct=163 settimeofday=164 mount=165 umount2=166 swapon=167 swapoff=168 reboot=169 sethostname=170
setdomainname=171 iopl=172 ioperm=173 create_module=174 init_module=175 delete_module=176 get_kernel_syms=177 query_module=178
quotactl=179 nfsservctl=180 setxattr=188 tkill=200 sched_setaffinity=203 io_setup=206 lookup_dcookie=212 remap_file_pages=216 timer_create=222
clock_settime=227 tgkill=234 mbind=237 set_mempolicy=238 get_mempolicy=239 mq_open=240 mq_unlink=241 mq_timedreceive=243
kexec_load=246 add_key=248 request_key=249 keyctl=250 ioprio_set=251 inotify_add_watch=254 migrate_pages=256 mknodat=259
linkat=265 fchmodat=268 unshare=272 get_robust_list=274 splice=275 tee=276 vmsplice=278 move_pages=279 timerfd_create=283
signalfd4=289 eventfd2=290 epoll_create1=291 dup3=292 inotify_init1=294 rt_tgsigqueueinfo=297 perf_event_open=298
fanotify_init=300 fanotify_mark=301 prlimit64=302 name_to_handle_at=303 open_by_handle_at=304 clock_adjtime=305 syncfs=306
setns=308 process_vm_readv=310 process_vm_writev=311 kcmp=312 finit_module=313 sched_setattr=314 renameat2=316 seccomp=317
memfd_create=319 kexec_file_load=320 bpf=321 execveat=322 userfaultfd=323 membarrier=324
"""

_AARCH64 = """
io_setup=0 setxattr=5 getcwd=17 lookup_dcookie=18 eventfd2=19 epoll_create1=20 dup=23 dup3=24 fcntl=25 inotify_init1=26
inotify_add_watch=27 ioctl=29 ioprio_set=30 mknodat=33 linkat=37 umount2=39 mount=40 pivot_root=41 nfsservctl=42 chroot=51
fchmodat=53 vhangup=58 quotactl=60 signalfd4=74 vmsplice=75 splice=76 tee=77 timerfd_create=85 acct=89 capset=91
personality=92 unshare=97 get_robust_list=100 kexec_load=104 init_module=105 delete_module=106 timer_create=107
clock_settime=112 syslog=116 ptrace=117 sched_setparam=118 sched_setscheduler=119 sched_setaffinity=122 kill=129 tkill=130
tgkill=131 rt_sigqueueinfo=138 setpriority=140 reboot=142 setgid=144 setuid=146 setresuid=147 setresgid=149 setgroups=159
sethostname=161 setdomainname=162 prctl=167 settimeofday=170 adjtimex=171 mq_open=180 mq_unlink=181 mq_timedreceive=183
msgget=186 msgctl=187 msgrcv=188 msgsnd=189 semget=190 semctl=191 semop=193 shmget=194 shmctl=195 shmat=196 socket=198
socketpair=199 add_key=217 request_key=218 keyctl=219 clone=220 swapon=224 swapoff=225 mbind=235 get_mempolicy=236
remap_file_pages=234 set_mempolicy=237 migrate_pages=238 move_pages=239 rt_tgsigqueueinfo=240 perf_event_open=241 prlimit64=261 fanotify_init=262
fanotify_mark=263 name_to_handle_at=264 open_by_handle_at=265 clock_adjtime=266 syncfs=267 setns=268 process_vm_readv=270
process_vm_writev=271 kcmp=272 finit_module=273 sched_setattr=274 renameat2=276 seccomp=277 memfd_create=279 bpf=280
execveat=281 userfaultfd=282 membarrier=283 kexec_file_load=294
"""

_BOTH = """
pidfd_send_signal=424 io_uring_setup=425 io_uring_enter=426 io_uring_register=427 open_tree=428 move_mount=429 fsopen=430
fsconfig=431 fsmount=432 fspick=433 pidfd_open=434 clone3=435 close_range=436 openat2=437 pidfd_getfd=438 process_madvise=440
mount_setattr=442 quotactl_fd=443 landlock_create_ruleset=444 landlock_restrict_self=446 memfd_secret=447 process_mrelease=448
set_mempolicy_home_node=450 cachestat=451 fchmodat2=452 statmount=457 listmount=458 lsm_get_self_attr=459 lsm_set_self_attr=460 mseal=462
open_tree_attr=467
"""


def _read(*tables: str) -> dict[str, int]:
    return {name: int(number) for table in tables for name, _, number in (pair.partition("=") for pair in table.split())}


# By the machine's name as uname says it.
NUMBERS = {"x86_64": _read(_X86_64, _BOTH), "aarch64": _read(_AARCH64, _BOTH)}
