"""The loop people write: a thread per host, paramiko.SSHClient, one command.

Arguments: HOSTFILE CONFIG KNOWN_HOSTS COMMAND
"""

import sys
import threading
from pathlib import Path

import paramiko


def main() -> None:
    hostfile, config_path, known, command = sys.argv[1:5]
    config = paramiko.SSHConfig.from_path(config_path)
    keys, failed = paramiko.HostKeys(known), []

    def work(name: str) -> None:
        found = config.lookup(name)
        client = paramiko.SSHClient()
        for kind, key in (keys.lookup(name) or {}).items():
            client.get_host_keys().add(name, kind, key)
        try:
            client.connect(
                found["hostname"],
                port=int(found.get("port", 22)),
                username=found["user"],
                key_filename=found["identityfile"],
                allow_agent=False,
                look_for_keys=False,
                banner_timeout=60,
                auth_timeout=60,
            )
            _, out, _ = client.exec_command(command)
            if not out.read():
                failed.append(name)
        except Exception as e:
            failed.append(f"{name}: {e!r}")
        finally:
            client.close()

    threads = [threading.Thread(target=work, args=(n,)) for n in Path(hostfile).read_text().split()]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for f in failed:
        print(f)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
