#!/usr/bin/env bash
# A real SLURM of one host, on loopback, from Debian's packages (22.05 or later): for tests, never for work.
#   scripts/slurm/start.sh && eval "$(scripts/slurm/start.sh env)" && sinfo
# Needs root. Everything it makes lies in KVRELAY_SLURM_DIR (by default in the folder for temporary files): configuration,
# keys, database, logs, pid files. No file of /etc is written but one line of /etc/hosts where the host's own name does
# not lead to loopback; stop.sh takes it out again. A second call finds the cluster running and changes nothing.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
. "$here/places.sh"
if [ "${1:-}" = env ]; then
  echo "export SLURM_CONF='$conf/slurm.conf'"
  exit 0
fi
[ "$(id -u)" = 0 ] || fail "only root can start it: slurmd runs jobs as their users"

# ---- packages; their own services must not start beside ours
packages="slurmctld slurmd slurm-client slurmdbd munge mariadb-server-core mariadb-client-core"
missing=$(for p in $packages; do
  dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null | grep -qx installed || echo "$p"
done)
if [ -n "$missing" ]; then
  say "installing" $missing
  mkdir -p "$dir"
  denied=/usr/sbin/policy-rc.d
  if [ ! -e $denied ]; then
    printf '#!/bin/sh\nexit 101\n' >$denied && chmod 755 $denied
    trap 'rm -f $denied' EXIT
  fi
  export DEBIAN_FRONTEND=noninteractive
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends $missing; } >"$dir/apt.log" 2>&1 ||
    fail "apt-get cannot install them; its last words: $(tail -n 2 "$dir/apt.log")"
fi
release=$(slurmctld -V | grep -oE '[0-9]+' | head -n 1)

if lives slurmctld && timeout 10 sinfo -h >/dev/null 2>&1; then
  say "is running already ($dir)"
  exit 0
fi
if [ -e "$conf/slurm.conf" ] && ! grep -qF "$mark" "$conf/slurm.conf"; then
  fail "$conf/slurm.conf is not ours; choose another folder (KVRELAY_SLURM_DIR)"
fi
mkdir -p "$dir" "$conf" "$spool"
chmod 755 "$dir" "$conf"
install -d -o slurm -g slurm "$run" "$log" "$dir/state" "$dir/database"
install -d -m 700 -o slurm -g slurm "$dir/keys"

# ---- the host's own name: daemons that listen on loopback alone are sought where it leads
address=$(getent ahostsv4 "$(hostname)" 2>/dev/null | awk 'NR == 1 {print $1}') || true
case "$address" in
  127.*) ;;
  *)
    { echo "127.0.0.1 $(hostname) $mark"; cat /etc/hosts; } >"$dir/hosts"
    cat "$dir/hosts" >/etc/hosts # written into, not replaced: in a container it is a mount
    ;;
esac

# ---- two devices that stand for GPUs: character devices, or SLURM sets no CUDA_VISIBLE_DEVICES
for i in 0 1; do [ -c "$dir/gpu$i" ] || mknod -m 666 "$dir/gpu$i" c 1 3; done

host=$(hostname -s 2>/dev/null || hostname)
memory=$(($(awk '/MemTotal/ {print $2}' /proc/meminfo) / 1024 - 512))
cat >"$conf/slurm.conf" <<CONF
$mark
ClusterName=kvrelay
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=slurm
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
# a requeued job waits cred_expire + 1 seconds before it may start again; the default is two minutes
AuthInfo=socket=$run/munge.socket,cred_expire=5
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation=$dir/state
SlurmdSpoolDir=$spool
SlurmctldPidFile=$run/slurmctld.pid
SlurmdPidFile=$run/slurmd.pid
SlurmctldLogFile=$log/slurmctld.log
SlurmdLogFile=$log/slurmd.log
MailProg=/bin/true
MpiDefault=none
# no control groups: they are seldom to be had in a container
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=5
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
# answers within a second or two: nobody else waits here
SchedulerParameters=bf_interval=1,sched_interval=2,batch_sched_delay=0
ReturnToService=2
KillWait=30
MinJobAge=600
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$((port + 1))
# to slurmdbd this is the socket of munge, whatever its name says
AccountingStoragePass=$run/munge.socket
GresTypes=gpu
NodeName=$node NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 3)) CPUs=8 RealMemory=$memory Gres=gpu:2 State=UNKNOWN
PartitionName=main Nodes=$node Default=YES MaxTime=INFINITE State=UP PriorityTier=5
PartitionName=low Nodes=$node MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=0
PartitionName=high Nodes=$node MaxTime=INFINITE State=UP PriorityTier=10
CONF
printf '%s\nAutoDetect=off\nName=gpu File=%s\n' "$mark" "$dir/gpu[0-1]" >"$conf/gres.conf"
# without this file slurmd looks for /sys/fs/cgroup and dies where nothing is mounted there
plugin=disabled
[ "$release" -ge 23 ] || plugin=cgroup/v1
printf '%s\nCgroupPlugin=%s\n' "$mark" "$plugin" >"$conf/cgroup.conf"
cat >"$conf/slurmdbd.conf" <<CONF
$mark
AuthType=auth/munge
AuthInfo=socket=$run/munge.socket
DbdHost=$host
DbdAddr=127.0.0.1
DbdPort=$((port + 1))
CommunicationParameters=NoInAddrAny
SlurmUser=slurm
LogFile=$log/slurmdbd.log
PidFile=$run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=$((port + 2))
StorageUser=slurm
StoragePass=slurm
StorageLoc=kvrelay_accounts
CONF
chown slurm:slurm "$conf/slurmdbd.conf"
chmod 600 "$conf/slurmdbd.conf"

# ---- munge with a key and a socket of our own, so that a munged of the machine is left alone
[ -s "$dir/keys/munge.key" ] || (umask 077 && head -c 128 /dev/urandom >"$dir/keys/munge.key")
chown slurm:slurm "$dir/keys/munge.key"
if ! lives munged; then
  rm -f "$run"/munge.socket*
  runuser -u slurm -- munged --force --key-file="$dir/keys/munge.key" --socket="$run/munge.socket" \
    --pid-file="$run/munged.pid" --log-file="$log/munged.log" --seed-file="$dir/keys/munge.seed" --num-threads=2
  await 10 munged sh -c "munge -n -S '$run/munge.socket' | unmunge -S '$run/munge.socket'"
fi

# ---- the accounts: without them sacct has nothing to say, and a job that dies without a word is never missed
sql() { mariadb --no-defaults --protocol=socket --socket="$run/mariadb.socket" -uroot "$@"; }
if ! lives mariadbd; then
  [ -d "$dir/database/mysql" ] || mariadb-install-db --no-defaults --datadir="$dir/database" --user=slurm \
    --skip-test-db --auth-root-authentication-method=normal --innodb-log-file-size=8M >"$log/database.log" 2>&1 ||
    fail "mariadb-install-db failed ($log/database.log)"
  setsid mariadbd --no-defaults --user=slurm --datadir="$dir/database" --socket="$run/mariadb.socket" \
    --pid-file="$run/mariadbd.pid" --bind-address=127.0.0.1 --port=$((port + 2)) --skip-log-bin --skip-name-resolve \
    --innodb-buffer-pool-size=32M --innodb-log-file-size=8M --innodb-lock-wait-timeout=900 --performance-schema=0 \
    --innodb-flush-log-at-trx-commit=0 >"$log/mariadbd.log" 2>&1 </dev/null &
  await 60 mariadbd sql -e 'select 1'
fi
sql -e "create database if not exists kvrelay_accounts;
  create user if not exists 'slurm'@'127.0.0.1' identified by 'slurm';
  grant all on kvrelay_accounts.* to 'slurm'@'127.0.0.1';"
lives slurmdbd || slurmdbd </dev/null
await 60 slurmdbd timeout 5 sacctmgr -n show cluster
timeout 10 sacctmgr -n show cluster format=cluster | grep -qw kvrelay || timeout 10 sacctmgr -i add cluster kvrelay >/dev/null 2>&1 || true

# ---- controller and node
lives slurmctld || slurmctld </dev/null
await 30 slurmctld sh -c 'timeout 5 scontrol ping | grep -q "is UP"'
lives slurmd || slurmd -N "$node" </dev/null
# a state that an earlier run left behind would let every job wait for ever
timeout 10 scontrol update NodeName="$node" State=RESUME >/dev/null 2>&1 || true
await 30 "the node" sh -c "timeout 5 sinfo -h -N -o %T | grep -qE '^(idle|mixed|allocated)'"
await 30 sacct timeout 5 sacct -n
await 30 srun timeout 15 srun --immediate=10 -t 1 true
say "SLURM $release is up on loopback in $dir; use it with: eval \"\$($0 env)\""
