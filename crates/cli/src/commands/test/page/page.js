// Filters of the page. A filter stands behind the `#` of the address, so that a view can be linked:
// `#result=failed,errored&tag=refund&open=1`. Without a script everything is shown.
"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const form = document.getElementById("filters");
  const search = document.getElementById("search");
  const count = document.getElementById("count");
  const nothing = document.getElementById("nothing");
  const opener = document.getElementById("open");
  const cases = all(".case");
  const chips = all(".chip", form);
  const choices = all("select", form);
  const texts = new Map();
  form.hidden = false;

  const textOf = (element) => {
    if (!texts.has(element)) texts.set(element, element.textContent.toLowerCase());
    return texts.get(element);
  };

  const words = (value) => (value ? value.split(" ").map(decodeURIComponent) : []);

  const wanted = () => {
    const filter = { result: [], text: search.value.trim().toLowerCase() };
    for (const chip of chips) {
      if (chip.getAttribute("aria-pressed") === "true") filter.result.push(chip.dataset.result);
    }
    for (const choice of choices) filter[choice.name] = choice.value;
    return filter;
  };

  const matches = (element, filter) => {
    const { result, target, change, tags } = element.dataset;
    if (filter.result.length && !filter.result.includes(result)) return false;
    if (filter.target && filter.target !== target) return false;
    if (filter.change && filter.change !== change) return false;
    if (filter.tag && !words(tags).includes(filter.tag)) return false;
    const scenario = element.closest(".scenario").querySelector("header");
    const said = textOf(element) + (scenario ? textOf(scenario) : "");
    return !filter.text || said.includes(filter.text);
  };

  const show = () => {
    const filter = wanted();
    let shown = 0;
    for (const element of cases) {
      element.hidden = !matches(element, filter);
      if (!element.hidden) shown += 1;
    }
    for (const group of all(".scenario, .file")) {
      group.hidden = !group.querySelector(".case:not([hidden])");
    }
    const shownIds = new Set(cases.filter((element) => !element.hidden).map((element) => element.id));
    for (const row of all(".compare tbody tr")) {
      row.hidden = !all("a", row).some((link) => shownIds.has(link.hash.slice(1)));
    }
    count.textContent = shown === cases.length ? `${shown} cases` : `${shown} of ${cases.length} cases`;
    nothing.hidden = shown > 0;
    nameOpener();
    return filter;
  };

  const visible = () => cases.filter((element) => !element.hidden);
  const nameOpener = () => {
    opener.textContent = visible().every((element) => element.open) ? "Close all" : "Open all";
  };

  const remember = (filter) => {
    const parts = new URLSearchParams();
    if (filter.result.length) parts.set("result", filter.result.join(","));
    for (const name of ["text", "tag", "target", "change"]) {
      if (filter[name]) parts.set(name, filter[name]);
    }
    const address = parts.toString();
    try {
      history.replaceState(null, "", address ? `#${address}` : location.pathname + location.search);
    } catch {
      // Some browsers keep the address of a file as it is.
    }
  };

  const reveal = (element) => {
    for (let inner = element; inner; inner = inner.parentElement) {
      if (inner.tagName === "DETAILS") inner.open = true;
    }
    element.scrollIntoView({ block: "start" });
  };

  // Reads the filter of the address, or opens the case that it names.
  const follow = () => {
    const address = location.hash.slice(1);
    const linked = address && !address.includes("=") && document.getElementById(address);
    if (linked) {
      // The filter stays as it is, but for what the link leads to.
      show();
      for (let inner = linked; inner; inner = inner.parentElement) inner.hidden = false;
      reveal(linked);
      return;
    }
    const parts = new URLSearchParams(address);
    const results = (parts.get("result") ?? "").split(",");
    for (const chip of chips) chip.setAttribute("aria-pressed", String(results.includes(chip.dataset.result)));
    search.value = parts.get("text") ?? "";
    for (const choice of choices) {
      choice.value = parts.get(choice.name) ?? "";
      if (choice.selectedIndex < 0) choice.value = "";
    }
    show();
    if (parts.get("open") === "1") {
      for (const element of visible()) element.open = true;
      nameOpener();
    }
  };

  const change = () => remember(show());
  search.addEventListener("input", change);
  for (const choice of choices) choice.addEventListener("change", change);
  for (const chip of chips) {
    chip.addEventListener("click", () => {
      chip.setAttribute("aria-pressed", String(chip.getAttribute("aria-pressed") !== "true"));
      change();
    });
  }
  opener.addEventListener("click", () => {
    const opens = opener.textContent === "Open all";
    for (const element of visible()) element.open = opens;
    nameOpener();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  for (const element of cases) element.addEventListener("toggle", nameOpener);
  for (const button of all(".copy")) {
    button.hidden = !navigator.clipboard;
    button.addEventListener("click", async () => {
      const text = button.previousElementSibling.textContent;
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch {
        button.textContent = "Not copied";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
  }
  document.addEventListener("keydown", (event) => {
    const writes = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName ?? "");
    if (event.key === "/" && !writes) {
      event.preventDefault();
      search.focus();
    } else if (event.key === "Escape" && document.activeElement === search) {
      search.value = "";
      change();
    }
  });
  window.addEventListener("hashchange", follow);
  follow();
})();
