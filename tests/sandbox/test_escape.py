"""Attacks from inside, against the real engine: each must be contained, and its end must be named.

Attacks that do not end the container share one (`PROBES`): each reports the error it met, and the
errors, not the attacker's word, are what is compared. The others have a container each.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import textwrap
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentforge.config.settings import SandboxSettings
from agentforge.core.errors import EnvironmentFault
from agentforge.core.ports import Environment, Job, JobResult
from agentforge.core.report import Cause, TestReport
from agentforge.sandbox import DockerSandbox
from tests.sandbox.conftest import left_behind, make_tree

pytestmark = pytest.mark.docker
Run = Callable[..., TestReport]
RunJob = Callable[..., JobResult]
MB = 1024 * 1024

# Tries one thing each. The value is code, and the errors that count as contained.
PROBES: dict[str, tuple[str, str]] = {
    "proc-sysrq": ("write('/proc/sysrq-trigger', 'c')", "EROFS|EACCES|ENOENT"),
    "proc-core-pattern": ("write('/proc/sys/kernel/core_pattern', '|/tmp/x')", "EROFS|EACCES"),
    "proc-overcommit": ("write('/proc/sys/vm/overcommit_memory', '1')", "EROFS|EACCES"),
    "proc-kcore": ("open('/proc/kcore', 'rb').read(16) or fail(errno.EACCES)", "EACCES|EPERM|ENOENT"),
    "proc-oom-score": ("write('/proc/self/oom_score_adj', '-1000')", "EACCES|EPERM"),
    "proc-root-of-init": ("write('/proc/1/root/etc/passwd', 'root::0:0::/:/bin/sh')", "EROFS|EACCES"),
    "proc-uid-map": ("write('/proc/self/uid_map', '0 0 4294967295')", "EPERM|EACCES|EROFS"),
    "sys-memory-limit": ("write(first(LIMIT_FILES), '-1')", "EROFS|EACCES"),
    "sys-pids-limit": ("write(first(PIDS_FILES), 'max')", "EROFS|EACCES"),
    "sys-release-agent": ("write('/sys/fs/cgroup/memory/release_agent', '/tmp/x')", "EROFS|EACCES|ENOENT"),
    "sys-uevent-helper": ("write('/sys/kernel/uevent_helper', '/tmp/x')", "EROFS|EACCES|ENOENT"),
    "socket-raw": ("socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)", "EPERM"),
    "socket-packet": ("socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3)", "EPERM"),
    "socket-vsock": ("connect(socket.AF_VSOCK, (2, 1024))", "E[A-Z]+"),
    "dns": ("socket.getaddrinfo('example.org', 80)", "gaierror"),
    "dns-direct": ("connect(socket.AF_INET, ('8.8.8.8', 53))", "ENETUNREACH"),
    "metadata-service": ("connect(socket.AF_INET, ('169.254.169.254', 80))", "ENETUNREACH"),
    "ipv6": (
        "connect(socket.AF_INET6, ('2606:4700:4700::1111', 53))",
        "ENETUNREACH|EADDRNOTAVAIL|EAFNOSUPPORT",
    ),
    "host-localhost": ("connect(socket.AF_INET, ('127.0.0.1', HOST_PORT))", "ECONNREFUSED"),
    "host-bridge": ("connect(socket.AF_INET, ('172.17.0.1', HOST_PORT))", "ENETUNREACH"),
    "host-abstract-socket": ("connect(socket.AF_UNIX, '\\0' + HOST_NAME)", "ECONNREFUSED"),
    "engine-socket": ("connect(socket.AF_UNIX, '/var/run/docker.sock')", "ENOENT"),
    "device-node": ("os.mknod('/tmp/sda', 0o60666, os.makedev(8, 0))", "EPERM"),
    "device-memory": ("open('/dev/mem', 'rb')", "ENOENT|EPERM|EACCES"),
    "device-kernel-log": ("open('/dev/kmsg', 'w')", "ENOENT|EPERM|EACCES"),
    "setuid-root": ("os.setuid(0)", "EPERM"),
    "setgid-root": ("os.setgroups([0])", "EPERM"),
    "chroot": ("os.chroot('/tmp')", "EPERM"),
    "mount": ("call(libc.mount, b'none', b'/tmp', b'tmpfs', 0, None)", "EPERM"),
    "umount": ("call(libc.umount2, b'/proc/kcore', 2)", "EPERM"),
    "user-namespace": ("call(libc.unshare, 0x10000000)", "EPERM"),
    "mount-namespace": ("call(libc.unshare, 0x00020000)", "EPERM"),
    "join-init-namespace": ("call(libc.setns, os.open('/proc/1/ns/mnt', os.O_RDONLY), 0)", "EPERM|EACCES"),
    "kernel-module": ("syscall('init_module', b'x', 1, b'')", "EPERM|ENOSYS"),
    "bpf": ("syscall('bpf', 0, 0, 0)", "EPERM|ENOSYS"),
    "perf-events": ("syscall('perf_event_open', 0, 0, -1, -1, 0)", "EPERM|EACCES|ENOSYS"),
    "keyring": ("syscall('add_key', b'user', b'x', b'y', 1, -3)", "EPERM|ENOSYS"),
    "reboot": ("call(libc.reboot, 0x01234567)", "EPERM"),
    "clock-set": ("time.clock_settime(time.CLOCK_REALTIME, 0)", "EPERM"),
    "hostname-set": ("socket.sethostname('owned')", "EPERM"),
    "nice": ("os.nice(-5)", "EPERM"),
    "realtime-priority": ("os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))", "EPERM"),
    "raise-core-limit": ("resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, 1 << 20))", "EPERM|ValueError"),
    "raise-file-limit": ("resource.setrlimit(resource.RLIMIT_NOFILE, (9999, 9999))", "EPERM|ValueError"),
    "descriptor-filler": ("[os.dup(0) for _ in range(5000)]", "EMFILE"),
    "huge-sparse-file": ("os.truncate(os.open('big', os.O_CREAT | os.O_RDWR), 1 << 40)", "EFBIG"),
    "root-write": ("write('/usr/bin/python3', 'x')", "EROFS|EACCES"),
    "environment-write": ("write('/opt/env/bin/python', 'x')", "EROFS|EACCES"),
    "job-folder-write": ("write('/job/attack.py', 'x')", "EACCES"),
    "job-folder-rename": ("os.rename('/job/out', '/job/elsewhere')", "EACCES"),
    "hardlink-outside": ("os.link('/etc/passwd', '/job/out/hard')", "EXDEV|EPERM"),
    "immutable-flag": (
        "fcntl.ioctl(os.open('a.py', os.O_RDONLY), 0x40086602, b'\\x10' + bytes(7))",
        "E[A-Z]+",
    ),
}
PROBE_HEAD = """
import ctypes, errno, fcntl, json, os, resource, socket, struct, subprocess, sys, time
libc = ctypes.CDLL(None, use_errno=True)
LIMIT_FILES = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory.max")
PIDS_FILES = ("/sys/fs/cgroup/pids/pids.max", "/sys/fs/cgroup/pids.max")
NUMBERS = {
    "x86_64": {"init_module": 175, "bpf": 321, "perf_event_open": 298, "add_key": 248},
    "aarch64": {"init_module": 105, "bpf": 280, "perf_event_open": 241, "add_key": 217},
}
def first(paths):
    return next(path for path in paths if os.path.exists(path))
def fail(number):
    raise OSError(number, os.strerror(number))
def write(path, text):
    with open(path, "w") as f:
        f.write(text)
def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as s:
        s.settimeout(3)
        s.connect(address)
def call(function, *arguments):
    if function(*arguments) == -1:
        fail(ctypes.get_errno())
def syscall(name, *arguments):
    call(libc.syscall, NUMBERS[os.uname().machine][name], *arguments)
def attempt(code):
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        eval(code)
        outcome = "succeeded"
    except socket.gaierror:
        outcome = "gaierror"
    except OSError as error:
        outcome = errno.errorcode.get(error.errno, str(error))
    except BaseException as error:
        outcome = type(error).__name__
    os.write(pipe[1], (json.dumps(outcome) + "\\n").encode())
    os._exit(0)
"""
PROBE_TAIL = """
pipe = os.pipe()
seen = {}
for name, code in json.load(open("/job/probes.json")).items():
    attempt(code)
    seen[name] = json.loads(os.read(pipe[0], 1000))
print(json.dumps(seen))
"""


class HostServices:
    """What the attackers look for on the host: a port on every address and an abstract socket."""

    def __init__(self) -> None:
        self.port_socket = socket.create_server(("0.0.0.0", 0))
        self.port = self.port_socket.getsockname()[1]
        self.name = f"agentforge-escape-{self.port}"
        self.abstract = socket.socket(socket.AF_UNIX)
        self.abstract.bind("\0" + self.name)
        self.abstract.listen()

    def close(self) -> None:
        for one in (self.port_socket, self.abstract):
            one.close()

    def visitors(self) -> int:
        count = 0
        for one in (self.port_socket, self.abstract):
            one.setblocking(False)
            try:
                one.accept()[0].close()
                count += 1
            except BlockingIOError:
                continue
        return count


@pytest.fixture(scope="module")
def probed(
    settings: SandboxSettings, environment: Environment
) -> Iterator[tuple[JobResult, dict[str, str], int]]:
    """All probes in one container: the result, what each met, and how many reached the host."""
    host = HostServices()
    head = f"{PROBE_HEAD}\nHOST_PORT, HOST_NAME = {host.port}, {host.name!r}\n"
    files = {"probes.json": json.dumps({name: code for name, (code, _) in PROBES.items()}).encode()}
    job = Job(("python", "-c", head + PROBE_TAIL), files=files, timeout_s=60)
    result = asyncio.run(
        DockerSandbox(settings, "escape-probes").run_job(environment, make_tree({"a.py": "x = 1\n"}), job)
    )
    yield result, json.loads(result.output.splitlines()[-1]), host.visitors()
    host.close()


@pytest.mark.parametrize("name", PROBES)
def test_probe_is_refused(name: str, probed: tuple[JobResult, dict[str, str], int]) -> None:
    result, seen, visitors = probed
    assert re.fullmatch(PROBES[name][1], seen[name]), f"{name}: {seen[name]}"
    assert (result.cause, result.exit_code, visitors) == (Cause.OK, 0, 0)


@pytest.fixture
def job(sandbox: DockerSandbox, environment: Environment) -> RunJob:
    def run_job(code: str, **options: Any) -> JobResult:
        wanted = Job(("python", "-c", textwrap.dedent(code)), **options)
        return asyncio.run(sandbox.run_job(environment, make_tree({"a.py": "x = 1\n"}), wanted))

    return run_job


def lines(result: JobResult) -> dict[str, str]:
    """`name value` lines of what an attack printed."""
    return dict(line.split(" ", 1) for line in result.output.splitlines() if " " in line)


# -- processes


def test_fork_bomb_in_a_test_is_named_and_leaves_the_engine_usable(run: Run) -> None:
    """Children that outlive the run and fork again; what pytest itself can no longer do is told."""
    code = """
        import os, time
        def test_bomb():
            while True:
                try:
                    if os.fork() == 0:
                        time.sleep(20)
                        os._exit(0)
                except BlockingIOError:
                    break
            os.fork()
    """
    report = run({"test_a.py": textwrap.dedent(code)})
    assert report.failed == {"test_a.py::test_bomb"}
    assert "Resource temporarily unavailable" in report.failures["test_a.py::test_bomb"].message
    assert "processes" in report.cause_detail
    assert run({"test_a.py": "def test_a(): pass\n"}).passed == {"test_a.py::test_a"}


def test_kill_everything_ends_as_a_crash(run: Run) -> None:
    code = "import os\ndef test_quiet(): pass\ndef test_kill():\n    os.kill(-1, 9)\n"
    report = run({"test_a.py": code})
    assert report.cause in (Cause.CRASH, "signal")
    assert "killed" in report.cause_detail


def test_a_stopped_timer_does_not_stop_the_host(job: RunJob) -> None:
    """SIGSTOP for init and `timeout`, SIGTERM ignored, a session of its own: the host ends it."""
    attack = """
        import os, signal, time
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        for pid in (os.getppid(), 1):
            try:
                os.kill(pid, signal.SIGSTOP)
            except OSError:
                pass
        time.sleep(600)
    """
    began = time.monotonic()
    result = job(attack, timeout_s=2)
    assert time.monotonic() - began < 20
    assert result.cause is Cause.TIMEOUT
    assert "2 s" in result.output


def test_a_daemon_that_keeps_writing_is_gone_with_its_container(
    job: RunJob, engine: Any, run_id: str
) -> None:
    """It holds our output open for ever: we do not wait, and no thread of ours stays behind."""
    attack = """
        import os, signal, sys, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                while True:
                    os.write(1, b"y" * 4096)
            os._exit(0)
        print("parent done")
    """
    began = time.monotonic()
    result = job(attack, timeout_s=20)
    assert time.monotonic() - began < 10
    assert (result.cause, result.exit_code) == (Cause.OK, 0)
    assert left_behind(engine, run_id) == []
    deadline = time.monotonic() + 5
    while readers := [one.name for one in threading.enumerate() if one.name == "sandbox-output"]:
        assert time.monotonic() < deadline, readers
        time.sleep(0.1)


def test_the_collector_can_be_neither_traced_nor_stopped_nor_read(run: Run) -> None:
    """It runs beside the tests, so they find it: every way to touch it must be refused by the kernel."""
    code = """
        import ctypes, errno, os, signal
        libc = ctypes.CDLL(None, use_errno=True)
        def collectors():
            for entry in filter(str.isdigit, os.listdir("/proc")):
                try:
                    uid = os.stat("/proc/" + entry).st_uid
                    if b"collect.py" in open(f"/proc/{entry}/cmdline", "rb").read():
                        yield int(entry), uid
                except OSError:
                    continue
        def refused(work, *arguments):
            try:
                result = work(*arguments)
            except OSError as error:
                return error.errno in (errno.EPERM, errno.EACCES)
            return result == -1 and ctypes.get_errno() in (errno.EPERM, errno.EACCES)
        def test_attack():
            found = list(collectors())
            assert found, "there is no collector to attack"
            for pid, uid in found:
                for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGKILL):
                    assert refused(os.kill, pid, number), number
                for request in (16, 0x4206):  # attach, seize
                    assert refused(libc.ptrace, request, pid, 0, 0), request
                for name in ("mem", "environ", "fd", "root"):
                    path = f"/proc/{pid}/{name}"
                    opener = os.listdir if name in ("fd", "root") else open
                    assert refused(opener, path), path
                assert refused(os.sched_setaffinity, pid, {0})
                assert refused(os.setpriority, os.PRIO_PROCESS, pid, 19)
        def test_still_heard():
            assert False
    """
    report = run({"test_a.py": textwrap.dedent(code)})
    assert report.cause is Cause.OK, report
    assert report.passed == {"test_a.py::test_attack"}, report.output
    assert report.failed == {"test_a.py::test_still_heard"}


def test_setuid_programs_give_no_root(job: RunJob) -> None:
    """Those of the image (su, mount …), run, and a shell of the attacker's with the bit set."""
    attack = """
        import glob, os, shutil, stat, subprocess, time
        theirs = [p for d in ("/bin", "/usr/bin", "/usr/sbin") for p in glob.glob(d + "/*")
                  if os.path.isfile(p) and os.stat(p).st_mode & stat.S_ISUID]
        print("found", len(theirs))
        shutil.copy("/bin/sh", "/tmp/sh")
        os.chmod("/tmp/sh", 0o6755)
        print("own", subprocess.run(["/tmp/sh", "-p", "-c", "id -u"], capture_output=True, text=True).stdout)
        effective = set()
        for path in [p for p in theirs if os.path.basename(p) in ("su", "passwd", "chsh")]:
            pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
            with subprocess.Popen([path], **pipes) as child:
                time.sleep(0.3)
                for line in open(f"/proc/{child.pid}/status"):
                    if line.startswith("Uid"):
                        effective |= set(line.split()[1:])
                child.kill()
        print("effective", *sorted(effective))
    """
    seen = lines(job(attack))
    assert seen["own"] == "1000"
    assert set(seen["effective"].split()) <= {"1000"}


# -- memory and disk


def test_memory_hog_in_every_child_is_named(job: RunJob) -> None:
    result = job("""
        import os
        os.fork(), os.fork()
        data = []
        while True:
            data.append(bytes(16 << 20).replace(b"\\0", b"x"))
    """)
    assert result.cause is Cause.OOM
    assert "512 MB" in result.output


def test_shared_memory_is_capped_and_charged(job: RunJob, settings: SandboxSettings) -> None:
    """/dev/shm is writable too: its size is capped, and System V segments count as memory."""
    result = job("""
        import ctypes, os
        written = 0
        try:
            with open("/dev/shm/fill", "wb", buffering=0) as f:
                while written < 900 << 20:
                    written += f.write(bytes(1 << 20))
        except OSError as error:
            print("shm", error.errno, written >> 20)
        os.unlink("/dev/shm/fill")
        libc = ctypes.CDLL(None, use_errno=True)
        libc.shmat.restype = ctypes.c_void_p
        segment = libc.shmget(0, ctypes.c_size_t(900 << 20), 0o1600)
        address = libc.shmat(segment, None, 0)
        print("attached", flush=True)
        ctypes.memset(address, 1, 900 << 20)
        print("filled")
    """)
    assert lines(result)["shm"] == "28 64"
    assert "filled" not in result.output
    assert result.cause is Cause.OOM


def test_all_disks_together_cannot_exceed_the_memory(job: RunJob, settings: SandboxSettings) -> None:
    """Each is under its cap; what they hold together is charged to the container."""
    result = job("""
        import os
        block = bytes(1 << 20)
        total = 0
        for folder in (".", "/tmp", "/job/out", "/dev/shm"):
            try:
                with open(folder + "/fill", "wb", buffering=0) as f:
                    while True:
                        total += f.write(block)
                        os.write(1, b"total %d\\n" % (total >> 20))
            except OSError:
                pass
        while True:
            block += block
    """)
    assert int(lines(result)["total"]) <= settings.memory_mb
    assert result.cause is Cause.OOM


def test_inode_filler_meets_the_cap(job: RunJob) -> None:
    result = job(
        """
        import errno, os
        for folder in ("/tmp", "/dev/shm"):
            made = 0
            try:
                while made < 50_000:
                    os.close(os.open(f"{folder}/{made}", os.O_CREAT | os.O_WRONLY))
                    made += 1
            except OSError as error:
                print(folder, errno.errorcode[error.errno], made, flush=True)
        """,
        timeout_s=60,
    )
    seen = lines(result)
    assert seen["/tmp"].startswith("ENOSPC")
    assert int(seen["/tmp"].split()[1]) <= 20_000
    # Where no count is capped the memory of the inodes is: either way it ends in this container.
    assert result.cause in (Cause.OK, Cause.OOM, Cause.TIMEOUT)


def test_disk_full_in_a_test_is_named(run: Run) -> None:
    code = """
        def test_fill():
            with open("/tmp/fill", "wb") as f:
                while True:
                    f.write(bytes(1 << 20))
    """
    report = run({"test_a.py": textwrap.dedent(code)})
    assert report.failed == {"test_a.py::test_fill"}
    assert report.failures["test_a.py::test_fill"].exception == "OSError"
    assert "disk" in report.cause_detail


def test_no_core_is_dumped(run: Run) -> None:
    code = """
        import os, resource
        def test_abort():
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            os.abort()
    """
    report = run({"test_a.py": textwrap.dedent(code)})
    assert report.cause in (Cause.CRASH, "signal")
    assert "SIGABRT" in report.cause_detail


# -- what we read back


def test_planted_links_show_nothing_of_the_host(job: RunJob, tmp_path: Path) -> None:
    """A link to a file of the host, to its folder, through /proc: none of it comes home."""
    secret = tmp_path / "secret"
    secret.write_text("of the host")
    for plant, wanted in (
        (f"os.symlink({str(secret)!r}, '/job/out/r')", "r"),
        (f"os.symlink({str(tmp_path)!r}, '/job/out/d')", "d/secret"),
        (f"os.symlink('/proc/1/root' + {str(tmp_path)!r}, '/job/out/d')", "d/secret"),
        (f"os.symlink('../../../../../..' + {str(tmp_path)!r}, '/job/out/d')", "d/secret"),
    ):
        files, refusal = results_of(job, f"import os; {plant}", wanted)
        assert files == {}
        assert "of the host" not in refusal


def results_of(job: RunJob, code: str, name: str) -> tuple[dict[str, bytes], str]:
    """What came home, or the words of the refusal."""
    try:
        return dict(job(code, results=(name,)).files), ""
    except EnvironmentFault as error:
        return {}, error.what


@pytest.mark.parametrize(
    "plant",
    [
        "os.mkfifo('/job/out/r')",
        "os.link('/job/out/a', '/job/out/b'); os.symlink('b', '/job/out/r')",
        "socket.socket(socket.AF_UNIX).bind('/job/out/r')",
        "os.truncate(os.open('/job/out/r', os.O_CREAT | os.O_RDWR), 400 << 20)",
        "os.mkdir('/job/out/r'); [open(f'/job/out/r/{n}', 'w') for n in range(2000)]",
    ],
    ids=["fifo", "link-to-hardlink", "socket", "sparse-400-MB", "folder"],
)
def test_an_odd_result_is_refused_by_name(job: RunJob, plant: str) -> None:
    """Nothing is waited for, nothing is unpacked, and the error says which result it was."""
    began = time.monotonic()
    tracemalloc.start()
    code = f"import os, socket; open('/job/out/a', 'w').write('x'); {plant}"
    files, refusal = results_of(job, code, "r")
    assert files == {}
    assert "r:" in refusal or "/job/out/r" in refusal or "socket" in plant, refusal
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert time.monotonic() - began < 15
    assert peak < 60 * MB


def test_a_bomb_comes_home_as_the_bytes_it_is(job: RunJob) -> None:
    """150 MB of zeros in 150 kB of gzip: nobody here unpacks it."""
    tracemalloc.start()
    result = job(
        """
        import gzip, zlib
        deflate = zlib.compressobj(9, zlib.DEFLATED, 31)
        with open("/job/out/bomb.tar.gz", "wb") as f:
            for _ in range(150):
                f.write(deflate.compress(bytes(1 << 20)))
            f.write(deflate.flush())
        """,
        results=("bomb.tar.gz",),
        timeout_s=60,
    )
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert result.files["bomb.tar.gz"][:2] == b"\x1f\x8b"
    assert len(result.files["bomb.tar.gz"]) < 1 * MB
    assert peak < 10 * MB


# -- output


def test_one_line_of_10_mb_is_cut_while_it_is_read(run: Run) -> None:
    code = "def test_line():\n    assert not 'x' * 10_000_000\n"
    more = "import sys\ndef test_print():\n    print('y' * 10_000_000)\n    assert 0\n"
    tracemalloc.start()
    report = run({"test_a.py": code, "test_b.py": more})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert report.cause is Cause.OK
    assert len(report.failed) == 2
    assert len(report.output) < 80_000
    assert all(len(failure.traceback) < 20_000 for failure in report.failures.values())
    assert peak < 25 * MB


def test_terminal_codes_and_unicode_tricks_are_shown_and_not_obeyed(run: Run) -> None:
    """In ids, messages, tracebacks, output: escapes, overrides, line separators, lone surrogates."""
    code = r"""
        import pytest, sys
        EVIL = ["\x1b[2J\x1b]0;owned\x07", "\u202egnp.exe", "a\u2028b\u2029c"]
        EVIL += ["\ud800", "\x9b31m", "\r\x08\x7f"]
        @pytest.mark.parametrize("x", EVIL, ids=list(map(str, range(6))))
        def test_raises(x):
            print(x.encode("utf-8", "surrogatepass").decode("utf-8", "replace"))
            raise ValueError(x)
        @pytest.mark.parametrize("x", EVIL[:3])
        def test_ids(x):
            pass
        def test_аbc():
            pass
    """
    report = run({"test_a.py": textwrap.dedent(code)})
    assert report.cause is Cause.OK, report
    assert report.collected == 10
    shown = [report.output, report.cause_detail, *report.outcomes]
    for failure in report.failures.values():
        shown += [failure.message, failure.exception, failure.traceback]
    for text in shown:
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]", text)
        text.encode("utf-8")  # no lone surrogate reaches a file or a terminal


def test_enormous_ids_stay_distinct_and_bounded(run: Run) -> None:
    """Two ids of 100,000 characters that differ in the middle are two tests."""
    code = """
        import pytest
        @pytest.mark.parametrize("x", [1, 2, 3], ids=["a" * 50_000 + n + "a" * 50_000 for n in "xyz"])
        def test_long(x):
            assert x != 2
    """
    report = run({"test_a.py": textwrap.dedent(code)})
    assert report.cause is Cause.OK, report.cause_detail
    assert len(report.outcomes) == 3
    assert (len(report.passed), len(report.failed)) == (2, 1)
    assert all(len(test) < 5000 for test in report.outcomes)


# -- clocks


@pytest.mark.parametrize(
    "trick",
    [
        "time.time = time.monotonic = time.perf_counter = lambda: 0.0",
        "time.sleep = lambda s: None; signal.setitimer = signal.alarm = lambda *a: None",
        "os.environ.update(LD_PRELOAD='/usr/lib/faketime.so', FAKETIME='-10y'); time.time = lambda: 1.0",
    ],
    ids=["clock-stands-still", "no-timers", "faketime"],
)
def test_a_false_clock_moves_no_limit(run: Run, trick: str) -> None:
    code = f"import os, signal, time\n{trick}\ndef test_spin():\n    while True: pass\n"
    began = time.monotonic()
    report = run({"test_a.py": code}, timeout_s=4)
    took = time.monotonic() - began
    assert took < 14
    assert not report.passed
    assert 0 < report.duration_s <= took
    assert report.cause is Cause.TIMEOUT or report.failed == {"test_a.py::test_spin"}
