# Typical Agent data synthesis workflow
async with Sandbox() as sandbox:
    await sandbox.create_session("vm")
    
    # Agent decision -> Tool call -> Record trajectory
    result = await sandbox.execute("vm:screenshot", {})
    trajectory.append({
        "action": "vm:screenshot",
        "observation": result["data"],
        "metadata": result["meta"]
    })
