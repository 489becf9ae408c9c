"""Measures tai42-sandbox-local: answers each line "WHAT COUNT" with a JSON array of samples in milliseconds."""

import asyncio
import json
import os
import sys
import tempfile
import time

root = tempfile.TemporaryDirectory(prefix="caisson-bench-peer-")
os.environ["SANDBOX_LOCAL_ROOT"] = root.name

from tai42_contract.app import tai42_app  # noqa: E402
from tai42_contract.sandbox import SandboxPolicy, SandboxSessionSpec  # noqa: E402


class Host:
    """The part of a TAI runtime that a provider's module asks for: it registers itself when it is imported."""

    class sandboxes:
        @staticmethod
        def register_sandbox(provider):
            return provider


tai42_app.bind(Host)

from tai42_sandbox_local import LocalSandbox  # noqa: E402


def spec():
    return SandboxSessionSpec(
        image="host",
        workspace_key="bench",
        durability="ephemeral",
        network="egress",
        isolation="none",
        ttl_seconds=3600,
    )


async def create_destroy(sandbox, count):
    samples = []
    for _ in range(count):
        wanted = spec()
        start = time.perf_counter()
        session = await sandbox.create_session(wanted)
        await session.destroy()
        samples.append((time.perf_counter() - start) * 1000)
    return samples


async def exec_true(sandbox, count):
    session = await sandbox.create_session(spec())
    samples = []
    for _ in range(count):
        start = time.perf_counter()
        await session.exec(["/bin/true"], timeout_seconds=60)
        samples.append((time.perf_counter() - start) * 1000)
    await session.destroy()
    return samples


MEASUREMENTS = {"create_destroy": create_destroy, "exec_true": exec_true}


async def main():
    sandbox = LocalSandbox()
    sandbox.bind_policy(SandboxPolicy(egress="egress", isolation="none", scrub_transcript=False, durable=True))
    for line in sys.stdin:
        what, count = line.split()
        print(json.dumps(await MEASUREMENTS[what](sandbox, int(count))), flush=True)


asyncio.run(main())
root.cleanup()
