// The list of runs: kept as it is on the server, and moved through by keys.

const PAUSE = 2000;
const rows = () => [...document.querySelectorAll("#runs tbody tr")];
const marked = () => rows().map(row => row.querySelector("input")).filter(box => box.checked);

// Nothing moves under the pointer or the keys of a reader: a page that would is taken when they are elsewhere.
async function refresh() {
  if (document.visibilityState !== "visible") return;
  const answer = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const [known, found] = [document.querySelector("#runs tbody"), page.querySelector("#runs tbody")];
  if (!found) return;
  if (!known) { location.reload(); return; }
  const chosen = new Set(marked().map(box => box.value)), at = known.querySelector("[aria-selected=true]")?.dataset.run;
  for (const row of found.querySelectorAll("tr")) {
    const old = known.querySelector(`[data-run="${CSS.escape(row.dataset.run)}"]`);
    if (old && old.contains(document.activeElement)) { const cells = [...row.cells]; [...old.cells].forEach((cell, n) => { if (n && !cell.contains(document.activeElement)) cell.replaceWith(document.adoptNode(cells[n])); }); row.replaceWith(old); continue; }
    if (chosen.has(row.dataset.run)) row.querySelector("input").checked = true;
    if (row.dataset.run === at) row.setAttribute("aria-selected", "true");
  }
  if (known.innerHTML !== found.innerHTML && !known.matches(":hover")) { const focus = document.activeElement; known.replaceWith(document.adoptNode(found)); if (document.contains(focus)) focus.focus({ preventScroll: true }); }
}

function move(by) {
  const all = rows(), now = all.findIndex(row => row.getAttribute("aria-selected") === "true");
  const to = Math.max(0, Math.min(all.length - 1, now + by));
  all.forEach((row, at) => { if (at === to) row.setAttribute("aria-selected", "true"); else row.removeAttribute("aria-selected"); });
  all[to]?.querySelector("a").focus();
}

document.addEventListener("keydown", event => {
  if (event.target.matches?.("input:not([type=checkbox])") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") { event.preventDefault(); document.getElementById("q").focus(); }
  if (event.key === "j") move(1);
  if (event.key === "k") move(-1);
  if (event.key === "x") { const box = document.querySelector("#runs [aria-selected=true] input"); if (box) box.checked = !box.checked; }
  if (event.key === "d" && marked().length === 2) document.querySelector("#runs").closest("form").requestSubmit();
});

setInterval(() => refresh().catch(() => {}), PAUSE);
