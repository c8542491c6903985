// Whoever shows a key gets a ticket for it and comes again with that; the key is kept nowhere.
const said = document.getElementById("said");
const key = document.getElementById("key");

document.getElementById("form").onsubmit = async (event) => {
  event.preventDefault();
  said.textContent = "asking ...";
  try {
    const r = await fetch("/tickets", { method: "POST", headers: { Authorization: "Bearer " + key.value.trim() } });
    const answer = await r.json();
    if (!r.ok) throw new Error(answer.detail || answer.error.message);
    const to = new URL(location.href);
    to.searchParams.set("ticket", answer.ticket);
    location.replace(to);
  } catch (e) {
    said.textContent = e.message;
    key.select();
  }
};
