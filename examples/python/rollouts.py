"""RL rollouts on 32 boxes: each worker has an environment, which goes back to the same files at every reset, and a policy that
a trainer would update from (observation, action, reward). usage: rollouts.py [boxes [episodes]]"""

import asyncio
import random
import sys

import sandglass

BOXES = int(sys.argv[1]) if len(sys.argv) > 1 else 32
EPISODES = int(sys.argv[2]) if len(sys.argv) > 2 else 2
ACTIONS = ["ls", "cat clue", "cat $(cat clue)", "rm -f treasure"]


async def setup(box):
    await box.run("echo treasure > clue; echo gold > treasure")


def reward(env, result):
    found = "gold" in result.stdout
    return (1.0 if found else -0.05), found


async def rollout(client, seed):
    policy, total, trajectories = random.Random(seed), 0.0, []
    async with sandglass.AsyncEnv(client, reward, setup=setup, max_steps=8, memory="128m", disk="64m") as env:
        for _ in range(EPISODES):
            await env.reset()
            done = False
            while not done:
                _observation, value, terminated, truncated, _info = await env.step(policy.choice(ACTIONS))
                total += value
                done = terminated or truncated
            trajectories.append(env.trajectory_id)
    return total, trajectories


async def main():
    async with sandglass.alocal() as client:
        results = await asyncio.gather(*[rollout(client, seed) for seed in range(BOXES)])
        ids = [t for _, ts in results for t in ts]
        print(f"{len(ids)} episodes in {BOXES} boxes, mean reward {sum(r for r, _ in results) / len(ids):.2f}")
        steps = [s async for s in client.trajectory(ids[0]).steps()]
        print("first episode:", [(s.params["command"], s.outcome) for s in steps])


asyncio.run(main())
