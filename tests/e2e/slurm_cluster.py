"""A real Slurm of two nodes on this machine: its controller, two slurmd and munge in namespaces of their own, which end
with the test."""
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import time
import unittest

from support import HANG, environment, eventually, only_root

NODES = ("node1", "node2")
INSIDE = "TRAINWATT_TEST_INSIDE"
# Each node has all of this machine's processors, so that one rank of each may have one to itself where there are two.
CONFIGURATION = """\
ClusterName=trainwatt
SlurmctldHost=head(10.77.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmdSpoolDir={folder}/spool/%n
TmpFS={folder}/tmp/%n
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SchedulerParameters=batch_sched_delay=0,sched_interval=1
MessageTimeout=100
BatchStartTimeout=300
KillWait=30
{more}
NodeName=node1 NodeAddr=10.77.0.11 CPUs={cpus} State=UNKNOWN
NodeName=node2 NodeAddr=10.77.0.12 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
# One node: it waits for its end of the network, takes its name, and is a slurmd from then on.
NODE = """\
read -r _
hostname "$1" && mount -t tmpfs tmpfs /dev/shm && ip link set lo up &&
ip address add "$2/24" dev eth0 && ip link set eth0 up && exec slurmd -D -N "$1"
"""


def enter():
    """Goes on as the same program in namespaces of its own. Nothing that is started there outlives the test: the first
    process's end is everybody's."""
    if INSIDE in os.environ:
        return
    for program in ("slurmctld", "slurmd", "munged", "ip"):
        if shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin") is None:
            raise unittest.SkipTest(f"{program} is not installed (packages slurm-wlm, munge, iproute2)")
    only_root("as Slurm's daemons do")
    space = ["unshare", "--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child",
             "--propagation", "private"]
    probe = subprocess.run([*space, "ip", "link", "add", "probe", "type", "bridge"], capture_output=True, text=True)
    if probe.returncode != 0:
        raise unittest.SkipTest(f"no namespaces and bridges here ({probe.stderr.strip()})")
    # A shell is the first process: it takes leave of those whose parents are gone.
    os.environ[INSIDE] = "yes"
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    os.execvp(space[0], [*space, "bash", "-c", '"$@"; exit', "bash", *sys.orig_argv])


def command(*args, check=True, **kwargs):
    done = subprocess.run([*map(str, args)], capture_output=True, text=True, timeout=HANG, **kwargs)
    if check and done.returncode != 0:
        raise RuntimeError(f"{args}: {done.stdout}{done.stderr}")
    return done


def processes(name):
    """The processes of this program; all that this test can see are its own."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = pathlib.Path("/proc", entry, "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].decode(errors="replace").split(":")[0].rsplit("/", 1)[-1] == name:
            found.append(int(entry))
    return found


class Cluster:
    """`folder` is one that all nodes see, as they see all of this machine's files."""

    def __init__(self, folder, more=""):
        self.folder = pathlib.Path(folder)
        self.undo = contextlib.ExitStack()
        hosts = "127.0.0.1 localhost\n10.77.0.1 head\n10.77.0.11 node1\n10.77.0.12 node2\n"
        (self.folder / "hosts").write_text(hosts)
        cpus = os.cpu_count()
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(folder=self.folder, cpus=cpus, more=more))
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        (self.folder / "state").mkdir()
        for node in NODES:
            (self.folder / "spool" / node).mkdir(parents=True)
            (self.folder / "tmp" / node).mkdir(parents=True)
            (self.folder / "tmp" / node).chmod(0o1777)  # else pmix refuses to start
        self.environment = environment(SLURM_CONF=self.folder / "slurm.conf",
                                       # Open MPI takes the network of the nodes, and gives the processor away where
                                       # ranks are more than processors.
                                       OMPI_MCA_btl_tcp_if_include="10.77.0.0/24",
                                       OMPI_MCA_oob_tcp_if_include="10.77.0.0/24",
                                       OMPI_MCA_mpi_yield_when_idle=1)

    def __enter__(self):
        try:
            self.bring_up()
        except BaseException:
            self.undo.close()
            raise
        return self

    def __exit__(self, *_):
        self.undo.close()

    def bring_up(self):
        command("hostname", "head")
        command("mount", "--bind", self.folder / "hosts", "/etc/hosts")
        self.undo.callback(command, "umount", "/etc/hosts")
        command("ip", "link", "set", "lo", "up")
        command("ip", "link", "add", "net0", "type", "bridge")
        self.undo.callback(command, "ip", "link", "delete", "net0")
        command("ip", "address", "add", "10.77.0.1/24", "dev", "net0")
        command("ip", "link", "set", "net0", "up")
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        self.start("munged", "munged", "--foreground", "--force", "--key-file", key, "--socket",
                   self.folder / "munge.socket", "--pid-file", self.folder / "munge.pid", "--log-file",
                   self.folder / "munge.log", "--seed-file", self.folder / "munge.seed")
        for i, node in enumerate(NODES, start=1):
            process = self.start(node, "unshare", "--net", "--uts", "--ipc", "--mount", "--propagation", "private",
                                 "bash", "-c", NODE, "bash", node, f"10.77.0.1{i}", stdin=subprocess.PIPE)
            outer = os.readlink("/proc/self/ns/net")
            if not eventually(lambda: os.readlink(f"/proc/{process.pid}/ns/net") != outer):
                raise RuntimeError(f"{node} has no network of its own")
            command("ip", "link", "add", f"to{i}", "type", "veth", "peer", "name", "eth0", "netns", process.pid)
            self.undo.callback(command, "ip", "link", "delete", f"to{i}")
            command("ip", "link", "set", f"to{i}", "master", "net0", "up")
            process.stdin.write(b"\n")
            process.stdin.close()
        if not eventually((self.folder / "munge.socket").exists):
            raise RuntimeError("munged does not start:\n" + self.logs())
        self.start("slurmctld", "slurmctld", "-D")
        if not eventually(lambda: self.states() == ["idle"] * len(NODES)):
            raise RuntimeError(f"the nodes are {self.states()}\n" + self.logs())

    def start(self, name, *args, stdin=subprocess.DEVNULL):
        with open(self.folder / f"{name}.out", "wb") as output:
            process = subprocess.Popen([*map(str, args)], stdin=stdin, stdout=output, stderr=subprocess.STDOUT,
                                       env=self.environment)
        self.undo.callback(self.stop, process)
        return process

    @staticmethod
    def stop(process):
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def run(self, *args, check=True, env=(), **kwargs):
        more = {name: str(value) for name, value in dict(env).items()}
        return command(*args, check=check, env={**self.environment, **more}, **kwargs)

    def states(self):
        return self.run("sinfo", "--noheader", "--Node", "--format=%T", check=False).stdout.split()

    def submit(self, *args, **kwargs):
        """sbatch ARGS. Returns the job's number."""
        return int(self.run("sbatch", "--parsable", *args, **kwargs).stdout)

    def job(self, number):
        """What scontrol shows of a job."""
        shown = self.run("scontrol", "--oneliner", "show", "job", number).stdout
        return dict(word.split("=", 1) for word in shown.split() if "=" in word)

    def state(self, number):
        return self.job(number)["JobState"]

    def wait(self, number, *states, seconds=HANG):
        """The job, as soon as it is in one of these states."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            job = self.job(number)
            if job["JobState"] in states:
                return job
            time.sleep(0.1)
        raise AssertionError(f"job {number} is {self.state(number)}, not {states}\n{self.logs()}")

    def start_now(self, number):
        """A job that was queued again would wait for two minutes. Slurm needs that for a launch that is still ending:
        until its last process is gone, and in the second in which it was revoked, the next would fail."""
        self.wait(number, "PENDING")
        if not eventually(lambda: not processes("slurmstepd")):
            raise AssertionError(f"the launch before does not end\n{self.logs()}")
        self.run("scontrol", "update", f"JobId={number}", "StartTime=now+2")

    def logs(self):
        """What the daemons have written, for a test that fails."""
        texts = [f"---- {path.stem}\n{path.read_text(errors='replace')[-4000:]}"
                 for path in sorted(self.folder.glob("*.out"))]
        return "\n".join(texts)
