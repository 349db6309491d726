// Starts a workflow with what its form has. What is not filled in is left to the workflow, which has defaults.

const form = document.getElementById("start"), wrong = document.getElementById("wrong");
document.getElementById("workflow")?.addEventListener("change", event => event.target.form.requestSubmit());
for (const part of document.querySelectorAll(".acts[hidden]")) part.hidden = false;

form?.addEventListener("submit", async event => {
  event.preventDefault();
  const { base, project, file } = form.dataset, inputs = {}, texts = {};
  wrong.textContent = "";
  for (const field of form.elements) {
    if (!field.name) continue;
    if (field.dataset.kind === "flag") inputs[field.name] = field.checked;
    else if (field.value === "") continue;
    else if (field.dataset.kind === "json") {
      try { inputs[field.name] = JSON.parse(field.value); }
      catch (error) { wrong.textContent = `${field.name}: ${error.message}`; field.focus(); return; }
    } else texts[field.name] = field.value;
  }
  const button = form.querySelector("button");
  button.disabled = true;
  try {
    const answer = await fetch(`${base}/api/projects/${project}/runs`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ workflow: file, inputs, texts }) });
    const said = await answer.json();
    if (answer.ok) { location.href = said.run ? `${base}/projects/${project}/runs/${said.run}` : `${base}/projects/${project}/runs`; return; }
    wrong.textContent = said.detail ?? String(answer.status);
  } catch (error) {
    wrong.textContent = "the server does not answer";
  }
  button.disabled = false;
});
