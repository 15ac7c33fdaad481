"""The bundled servers are real, keep what was committed over a kill, and die with their parent."""

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psutil
import psycopg2

from deploy.embedded import Postgres, Valkey
from tests.waiting import wait_until

PARENT = """
import sys, time
from pathlib import Path
from deploy.embedded import Postgres, Valkey
p, v = Postgres(Path(sys.argv[1]) / "p"), Valkey(Path(sys.argv[1]) / "v")
p.start(); v.start()
print(p.child.pid, v.child.pid, flush=True)
time.sleep(60)
"""


OWNER = """
import sys, time
from pathlib import Path
from deploy.embedded import Valkey
print(Valkey(Path(sys.argv[1]) / "v").sockets, flush=True)
time.sleep(60)
"""


def connect(server):
    return closing(psycopg2.connect(host=str(server.sockets), user="postgres", dbname="postgres"))


def test_a_committed_row_survives_a_kill(tmp_path):
    with Postgres(tmp_path) as server:
        with connect(server) as connection:
            connection.cursor().execute("create table kept (n int); insert into kept values (7)")
            connection.commit()
        server.kill()
        server.start()
        with connect(server) as connection:
            cursor = connection.cursor()
            cursor.execute("select n, current_setting('fsync') from kept")
            assert cursor.fetchone() == (7, "on")


def test_a_start_waits_for_a_server_that_still_shuts_down(tmp_path, monkeypatch):
    waited = []
    with Postgres(tmp_path / "postgres") as former, closing(Postgres(tmp_path / "postgres")) as next_one:
        wait = psutil.Process.wait

        def stop_and_wait(process, seconds):
            waited.append(process.pid)
            former.stop()
            return wait(process, seconds)

        monkeypatch.setattr(psutil.Process, "wait", stop_and_wait)
        started = former.child.pid
        next_one.start()
        assert waited == [started] and next_one.ended is None


def test_valkey_keeps_its_queue_over_a_restart(tmp_path):
    with Valkey(tmp_path) as server:
        server.client().lpush("farm", "message")
        server.stop()
        server.start()
        assert server.client().llen("farm") == 1


def test_servers_die_with_a_killed_parent(tmp_path):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    assert parent.stdout is not None
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    parent.send_signal(signal.SIGKILL)
    parent.wait()

    def gone():
        return all(not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie" for pid in pids)

    wait_until(gone, 15, "both servers to end")


def test_the_next_start_removes_the_empty_directories_of_a_killed_owner_and_no_living_one(tmp_path):
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    assert owner.stdout is not None
    left = Path(owner.stdout.readline().strip())
    living = Valkey(tmp_path / "living")
    assert left.is_dir()
    owner.kill()
    owner.wait()
    next_one = Valkey(tmp_path / "next")
    assert not left.exists() and living.sockets.is_dir()
    for server in (living, next_one):
        server.close()
