"""Hosts over SSH through Paramiko, the library under Fabric; no other package imports either.

One TCP connection and one session per `open`. The host's key is checked by our own reading of
known_hosts before anything about the user is sent. The reasons: docs/decisions/0003-ssh.md.

    transport_choice.py Paramiko, or the ssh program for hosts that need it openssh_transport.py the
    ssh program, one process for each host paramiko_transport.py opens a host, through jump hosts
    where needed config.py how a host is reached: asks `ssh -G` dial.py                 the TCP
    connection, up to the first line from the host link.py key exchange by Paramiko known_hosts.py
    is it the right host? login.py private keys, the agent, and a password where the user gives one
    secrets.py asks for passwords and passphrases, once channel.py one command on the host; a
    connection that a jump host makes stdio.py a command on the host with our stdin, stdout and
    stderr terminal.py a terminal on the host, by Fabric
"""
