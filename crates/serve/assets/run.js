// The page of a run, without loading it anew: links and the bar change what is shown and the address, and a run that goes on
// is asked for again when an event of it comes. All that is shown is made by the server; nothing here makes markup of values.

const run = () => document.getElementById("run");
const here = () => new URL(location.href);
let asked = 0, shown = location.href;

document.documentElement.classList.add("scripted");

// Takes the regions of another view of this run. A view that was asked for later wins.
async function show(address, { keep = false } = {}) {
  const mine = ++asked;
  const answer = await fetch(address, { headers: { accept: "text/html" } });
  if (!answer.ok) { if (!keep) location.href = address; return; }
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (mine !== asked) return;
  const found = page.getElementById("run");
  if (!found) { location.href = address; return; }
  const places = remember();
  document.title = page.title;
  for (const live of ["live"]) swap(document.querySelector(`[data-region=${live}]`), page.querySelector(`[data-region=${live}]`));
  const known = run();
  known.className = found.className;
  for (const name of ["last", "live"]) known.dataset[name] = found.dataset[name];
  for (const name of ["head", "past", "fail", "panes", "dock"]) {
    const [old, fresh] = [known.querySelector(`:scope > [data-region=${name}]`), found.querySelector(`:scope > [data-region=${name}]`)];
    if (name === "dock" && dragging && old && fresh) { swap(old.querySelector(".lanes"), fresh.querySelector(".lanes")); swap(old.querySelector("#evname"), fresh.querySelector("#evname")); continue; }
    if (old && fresh) swap(old, fresh);
    else if (old) old.remove();
    else if (fresh) known.insertBefore(document.adoptNode(fresh), known.querySelector(":scope > [data-region=panes]"));
  }
  shown = String(address);
  restore(places, keep);
  ready();
}

function swap(old, fresh) {
  if (old && fresh && old.outerHTML !== fresh.outerHTML) old.replaceWith(document.adoptNode(fresh));
}

// Where the reader is: how far each pane is scrolled, and what has the focus.
function remember() {
  const scrolled = [...document.querySelectorAll(".pane")].map(pane => pane.scrollTop);
  const active = document.activeElement;
  const focus = active && active !== document.body ? active.id ? `#${CSS.escape(active.id)}` : active.getAttribute("href") ? `[href="${CSS.escape(active.getAttribute("href"))}"]` : "" : "";
  return { scrolled, focus, values: document.querySelector("#src")?.classList.contains("novals") };
}

function restore({ scrolled, focus, values }) {
  [...document.querySelectorAll(".pane")].forEach((pane, at) => { pane.scrollTop = scrolled[at] ?? 0; });
  if (values) hideValues(true);
  if (focus) document.querySelector(focus)?.focus({ preventScroll: true });
}

const navigate = address => { history.pushState(null, "", address); return show(address); };

// Which event is shown stands in the address, but not each of them in the way back.
let dragging = false, waiting = 0;
function scrub(at) {
  const bar = document.getElementById("scrub"), last = Number(bar.max);
  at = Math.max(1, Math.min(last, at));
  bar.value = at;
  const address = here();
  if (at < last) address.searchParams.set("at", at); else address.searchParams.delete("at");
  history.replaceState(null, "", address);
  clearTimeout(waiting);
  waiting = setTimeout(() => show(address), 60);
}

function hideValues(hidden) {
  document.querySelector("#src")?.classList.toggle("novals", hidden);
  document.getElementById("values")?.setAttribute("aria-pressed", String(!hidden));
}

// What needs scripts is there as soon as there are scripts.
function ready() {
  for (const part of document.querySelectorAll(".acts[hidden]")) part.hidden = false;
  for (const node of document.querySelectorAll("svg.drawing [data-step]")) { node.setAttribute("tabindex", "0"); node.setAttribute("role", "link"); }
  const chosen = document.querySelector(".ref.sel");
  if (chosen && !seen(chosen)) chosen.scrollIntoView({ block: "center" });
}

function seen(part) {
  const [box, pane] = [part.getBoundingClientRect(), part.closest(".pane").getBoundingClientRect()];
  return box.top >= pane.top && box.bottom <= Math.min(pane.bottom, innerHeight);
}

// A card stays inside of its pane.
function place(pop) {
  pop.classList.remove("left", "up");
  const pane = pop.closest(".pane").getBoundingClientRect(), box = pop.getBoundingClientRect();
  if (box.right > Math.min(pane.right, innerWidth)) pop.classList.add("left");
  if (box.bottom > Math.min(pane.bottom, innerHeight)) pop.classList.add("up");
}
for (const kind of ["mouseover", "focusin"]) document.addEventListener(kind, event => {
  const pop = event.target.closest?.(".at")?.querySelector(".pop");
  if (pop && getComputedStyle(pop).display !== "none") place(pop);
});

document.addEventListener("click", event => {
  if (event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const act = event.target.closest("[data-act]");
  if (act) return void perform(act);
  if (event.target.closest("#values")) return hideValues(!document.querySelector("#src").classList.contains("novals"));
  const step = event.target.closest("svg.drawing [data-step]");
  if (step) return open(step);
  const link = event.target.closest("a[href]");
  const href = link?.getAttribute("href");
  if (href?.startsWith("?")) { event.preventDefault(); navigate(link.href); }
});

// A step of the drawing is the line of the source that it begins in, or its row.
function open(step) {
  const name = step.dataset.step;
  const links = [...document.querySelectorAll(".out a, .cards td b, .lane a")];
  const found = links.find(link => (link.querySelector(".vh")?.textContent.replace(/: $/, "") ?? link.textContent) === name);
  const target = found?.closest("a");
  if (target) navigate(target.href);
  else { const address = here(); address.searchParams.set("pane", "steps"); navigate(address); }
}

document.addEventListener("submit", event => {
  if (event.target.method !== "get") return;
  event.preventDefault();
  const address = here();
  address.search = new URLSearchParams(new FormData(event.target));
  navigate(address);
});

document.addEventListener("input", event => {
  if (event.target.id === "scrub") { dragging = true; scrub(Number(event.target.value)); }
});
document.addEventListener("change", event => { if (event.target.id === "scrub") dragging = false; });

addEventListener("popstate", () => show(location.href));

document.addEventListener("keydown", event => {
  const typing = event.target.matches?.("input:not([type=range]), textarea, select");
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const bar = document.getElementById("scrub");
  if (event.key === "[") scrub(Number(bar.value) - 1);
  else if (event.key === "]") scrub(Number(bar.value) + 1);
  else if (event.key === "Escape" && document.getElementById("now")) scrub(Number(bar.max));
  else if (event.key === "v" && document.querySelector("#src")) document.getElementById("values").click();
  else if (event.key === "b" || event.key === "f") document.querySelector(event.key === "b" ? ".to-back" : ".to-forward")?.scrollIntoView();
  else if (event.key === "Enter" && event.target.closest?.("svg.drawing [data-step]")) open(event.target.closest("[data-step]"));
});

// What a button does is a route of the API; what came of it is said.
async function perform(button) {
  if (button.dataset.sure && !confirm(button.dataset.sure)) return;
  const { base, project, run: id } = run().dataset;
  const buttons = document.querySelectorAll("[data-act]");
  for (const other of buttons) other.disabled = true;
  const words = button.textContent;
  button.textContent = "…";
  let said;
  try {
    const answer = await fetch(`${base}/api/projects/${project}/runs/${id}/${button.dataset.act}`, { method: "POST", headers: { "content-type": "application/json" }, body: button.dataset.body });
    const problem = answer.ok ? null : await answer.json();
    said = problem ? `${words}: ${problem.detail ?? answer.status}` : `${words}: done`;
    if (problem) alert(said);
  } catch (error) {
    said = `${words}: the server does not answer`;
  }
  await show(location.href, { keep: true });
  follow();
  const place = document.getElementById("said");
  if (place) place.textContent = said;
}

// The events of the run as they come. Their numbers are all that is taken of them: what they mean is asked for again, at most
// some times in a second, and a view of the past stays as it is.
let stream, due = 0, busy = false;
function follow() {
  if (stream && stream.readyState !== EventSource.CLOSED) return;
  const { base, project, run: id, last } = run().dataset;
  stream = new EventSource(`${base}/api/projects/${project}/runs/${id}/events?after=${last}`);
  stream.onmessage = event => { if (Number(event.lastEventId) > Number(run().dataset.last)) later(); };
  stream.addEventListener("driven", event => { if (event.data !== JSON.stringify({ driven: run().dataset.live === "true" })) later(); });
}
function later() {
  if (here().searchParams.has("at") || due) return;
  due = setTimeout(async () => {
    due = 0;
    if (busy || document.visibilityState !== "visible") return later();
    busy = true;
    const before = performance.now();
    try { await show(location.href, { keep: true }); } catch { /* the stream tells when the server is there again */ }
    const took = performance.now() - before;
    const said = document.getElementById("said"), pill = document.querySelector(".pill");
    if (said && pill) said.textContent = `${pill.textContent.trim()}, ${run().dataset.last} events`;
    setTimeout(() => { busy = false; }, took);
  }, 300);
}
// How a run that stopped stands is not always an event of its own.
setInterval(() => { if (run().dataset.live === "true") later(); }, 3000);

// What failed is seen first.
function first() {
  const line = document.getElementById(`L${document.getElementById("src")?.dataset.first}`), pane = line?.closest(".pane");
  if (line && !here().searchParams.has("value") && getComputedStyle(pane).overflowY === "auto") pane.scrollTop = line.offsetTop - pane.offsetTop - pane.clientHeight / 3;
}

ready();
first();
follow();
