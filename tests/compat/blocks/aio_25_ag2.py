import uuid
from agent_sandbox import Sandbox
from autogen import AssistantAgent, GroupChat, GroupChatManager, LLMConfig, UserProxyAgent

sandbox = Sandbox(base_url="http://localhost:8080")
jupyter_session = sandbox.jupyter.create_session(kernel_name="python3")
shell_session = sandbox.shell.create_session(id=str(uuid.uuid4()))
j_sid = jupyter_session.data.session_id
s_sid = shell_session.data.session_id

llm_config = LLMConfig({"model": "gpt-4o-mini", "api_key": "sk-..."})

proxy = UserProxyAgent(name="user_proxy", human_input_mode="NEVER",
                       code_execution_config=False,
                       is_termination_msg=lambda m: "TERMINATE" in (m.get("content") or ""))
coder = AssistantAgent(name="coder", system_message="Write and run Python code using run_python.", llm_config=llm_config)
reviewer = AssistantAgent(name="reviewer", system_message="Verify results. Say TERMINATE when done.", llm_config=llm_config)

@proxy.register_for_execution()
@coder.register_for_llm(description="Run Python in a persistent Jupyter kernel")
def run_python(code: str) -> str:
    result = sandbox.jupyter.execute_code(code=code, session_id=j_sid)
    outputs = getattr(result.data, "outputs", [])
    return "".join(o.text for o in outputs if hasattr(o, "text")) or "OK"

@proxy.register_for_execution()
@coder.register_for_llm(description="Run a shell command in the sandbox")
def run_shell(command: str) -> str:
    result = sandbox.shell.exec_command(command=command, id=s_sid)
    return getattr(result.data, "output", "") or "OK"

group_chat = GroupChat(agents=[proxy, coder, reviewer], messages=[], max_round=15)
manager = GroupChatManager(groupchat=group_chat, llm_config=llm_config,
                           is_termination_msg=lambda m: "TERMINATE" in (m.get("content") or ""))

proxy.run(manager, message="Load the Iris dataset and print summary statistics.").process()

# Cleanup
sandbox.jupyter.delete_session(j_sid)
sandbox.shell.cleanup_session(s_sid)
