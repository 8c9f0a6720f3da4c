# What a command sees of the layers around it. Compared between two sandboxes, so nothing here may differ from run to run.
while read -r key value; do
  case $key in
    Uid:|Gid:|Groups:|Cap*|NoNewPrivs:|Seccomp*|SigBlk:|SigIgn:) echo "$key $value" ;;
  esac
done < /proc/self/status
while read -r line; do echo "limit $line"; done < /proc/self/limits
while read -r _ _ _ _ place options rest; do echo "mount $place $options ${rest#*- }"; done < /proc/self/mountinfo
echo "umask $(umask)"
echo "host $(cat /proc/sys/kernel/hostname)"
for knob in $(cd /proc/sys/user 2>/dev/null && echo *); do echo "$knob $(cat /proc/sys/user/$knob)"; done
read -r _ _ _ _ _ session _ < /proc/1/stat && echo "session of the first process $session"
for kind in user mnt pid ipc uts cgroup net; do echo "ns $kind $(readlink /proc/self/ns/$kind)"; done
echo "files $(cd /proc/self/fd && echo *)"
(: >> /proc/self/oom_score_adj) 2>&1 # nothing but Landlock forbids it
(: >> /etc/passwd) 2>&1 # opened and closed: without isolation, as root, this is the host's
(: < /proc/1/environ) 2>&1
(: >> /proc/sys/kernel/hostname) 2>&1
cat /proc/net/route
