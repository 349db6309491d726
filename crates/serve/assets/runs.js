// Keeps the list of runs as it is on the server: the page is asked for again while a run of it goes on.

const PAUSE = 2000;

async function refresh() {
  if (document.visibilityState !== "visible") return;
  const answer = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const [known, found] = [document.querySelector("#runs tbody"), page.querySelector("#runs tbody")];
  if (known && found && known.innerHTML !== found.innerHTML) known.replaceWith(document.adoptNode(found));
}

setInterval(() => refresh().catch(() => {}), PAUSE);
