"use strict";
(() => {
  const PAGE = 100;
  const NUMBERS = new Set(["flow", "first", "duration", "packets", "sent", "received", "rexmit", "missing"]);
  const TITLES = {
    flow: "flow", first: "first packet (UTC)", duration: "duration", protocol: "protocol", application: "application",
    client: "client", server: "server", name: "name", packets: "packets", sent: "bytes sent", received: "bytes received",
    state: "TCP state", rexmit: "retransmitting packets", missing: "bytes missing", layers: "layers",
  };
  const LOW = new Set(["flow", "duration", "protocol", "name", "packets", "state", "rexmit", "missing"]);
  const EMPTY_HIDDEN = new Set(["state", "rexmit", "missing"]);
  const at = (id) => document.getElementById(id);
  const root = document.documentElement;

  // --- light and dark ---

  const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  at("theme").addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; });

  // --- numbers with units, as the rest of the page has them ---

  const count = (value) => value.toLocaleString("en-US");
  const size = (bytes) => {
    if (bytes < 1000) return `${bytes} B`;
    const units = ["kB", "MB", "GB", "TB", "PB", "EB"];
    let unit = -1;
    do { bytes /= 1000; unit++; } while (bytes >= 999.5 && unit < units.length - 1);
    return `${bytes.toFixed(bytes >= 99.95 ? 0 : bytes >= 9.995 ? 1 : 2)} ${units[unit]}`;
  };
  const duration = (nanoseconds) => {
    const seconds = nanoseconds / 1e9;
    if (seconds < 1e-3) return `${(nanoseconds / 1e3).toFixed(0)} µs`;
    if (seconds < 1) return `${(seconds * 1e3).toFixed(seconds < 0.1 ? 1 : 0)} ms`;
    if (seconds < 120) return `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`;
    const minutes = Math.round(seconds / 60);
    return minutes < 120 ? `${minutes} min` : minutes < 2880 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min`
      : `${Math.floor(minutes / 1440)} d ${Math.floor(minutes % 1440 / 60)} h`;
  };

  // --- flows ---

  const { begin, columns, rows } = JSON.parse(at("flow-data").textContent);
  const place = Object.fromEntries(columns.map((name, number) => [name, number]));
  const time = (offset, whole) => {
    const when = new Date(begin + offset / 1e6);
    if (Number.isNaN(when.getTime())) return `+${duration(offset)}`;
    const text = when.toISOString();
    return whole ? text.replace("T", " ").replace("Z", "") : text.slice(-13, -1);
  };
  const shown = (name, value, whole) => {
    if (value === null || value === "") return "";
    switch (name) {
      case "first": return time(value, whole);
      case "duration": return duration(value);
      case "sent": case "received": return size(value);
      case "missing": return value ? size(value) : "";
      case "rexmit": return value ? count(value) : "";
      case "packets": return count(value);
      default: return String(value);
    }
  };
  const texts = rows.map((row) => ["protocol", "application", "client", "server", "name", "state", "layers"]
    .map((name) => row[place[name]] ?? "").join(" ").toLowerCase());

  const body = at("rows"), input = at("search"), more = at("more-flows"), table = at("flow-table");
  for (const name of EMPTY_HIDDEN) if (!rows.some((row) => row[place[name]])) table.classList.add(`no-${name}`);
  let order = rows.map((_, number) => number), limit = PAGE, sort = null, down = true;

  const matches = (number, words) => words.every((word) => /^#\d+$/.test(word)
    ? rows[number][place.flow] === Number(word.slice(1)) : texts[number].includes(word));

  const element = (name, text, kind) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (kind) made.className = kind;
    return made;
  };

  const detail = (row) => {
    const line = element("tr"), cell = element("td", undefined, "detail"), list = element("dl");
    columns.forEach((name, number) => {
      const text = shown(name, row[number], true);
      if (text !== "") list.append(element("dt", TITLES[name]), element("dd", text));
    });
    cell.colSpan = columns.length - 1;
    cell.append(list);
    line.append(cell);
    return line;
  };

  const toggle = (line) => {
    const open = line.getAttribute("aria-expanded") === "true";
    line.setAttribute("aria-expanded", String(!open));
    if (open) line.nextSibling.remove();
    else line.after(detail(rows[Number(line.dataset.row)]));
  };

  const show = () => {
    const words = input.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const found = order.filter((number) => matches(number, words));
    body.replaceChildren(...found.slice(0, limit).map((number) => {
      const line = element("tr");
      line.tabIndex = 0;
      line.dataset.row = number;
      line.setAttribute("aria-expanded", "false");
      for (const name of columns) {
        if (name === "layers") continue;
        const kind = [EMPTY_HIDDEN.has(name) ? name : "", NUMBERS.has(name) ? "number" : "", LOW.has(name) ? "low" : "", name === "name" ? "wide" : "",
          name === "client" || name === "server" ? "address" : ""].filter(Boolean).join(" ");
        const cell = element("td", undefined, kind);
        cell.append(element("bdi", shown(name, rows[number][place[name]], false)));
        line.append(cell);
      }
      return line;
    }));
    at("found").textContent = words.length ? `${count(found.length)} of ${count(rows.length)} flows` : `${count(rows.length)} flows`;
    more.hidden = found.length <= limit;
  };

  const compare = (name) => {
    const number = place[name];
    if (NUMBERS.has(name)) return (a, b) => (rows[a][number] ?? -1) - (rows[b][number] ?? -1);
    const collator = new Intl.Collator("en", { numeric: true });
    return (a, b) => collator.compare(rows[a][number] ?? "", rows[b][number] ?? "");
  };

  for (const button of table.querySelectorAll("th button")) {
    button.addEventListener("click", () => {
      const name = button.dataset.column;
      down = sort === name ? !down : NUMBERS.has(name) && name !== "first" && name !== "flow";
      sort = name;
      const by = compare(name);
      order = rows.map((_, number) => number).sort((a, b) => (down ? by(b, a) : by(a, b)) || a - b);
      for (const head of table.querySelectorAll("th")) head.removeAttribute("aria-sort");
      button.parentElement.setAttribute("aria-sort", down ? "descending" : "ascending");
      show();
    });
  }

  let waiting = 0;
  input.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => { limit = PAGE; show(); }, 60);
  });
  more.addEventListener("click", () => { limit += 5 * PAGE; show(); });
  body.addEventListener("click", (event) => {
    const line = event.target.closest("tr[data-row]");
    if (line && !String(getSelection())) toggle(line);
  });
  body.addEventListener("keydown", (event) => {
    const line = event.target.closest("tr[data-row]");
    if (!line) return;
    const lines = [...body.querySelectorAll("tr[data-row]")], number = lines.indexOf(line);
    const next = { ArrowDown: number + 1, ArrowUp: number - 1, Home: 0, End: lines.length - 1 }[event.key];
    if (next !== undefined) lines[next]?.focus();
    else if (event.key === "Enter" || event.key === " ") toggle(line);
    else return;
    event.preventDefault();
  });

  const search = (text) => {
    input.value = text;
    limit = PAGE;
    show();
    at("flows").scrollIntoView();
    input.focus({ preventScroll: true });
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.find");
    if (button) search(button.dataset.search);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && event.target !== input && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      at("flows").scrollIntoView();
      input.focus({ preventScroll: true });
    } else if (event.key === "Escape" && event.target === input) search("");
    else if (event.key === "ArrowDown" && event.target === input) {
      event.preventDefault();
      body.querySelector("tr[data-row]")?.focus();
    }
  });

  // --- contents: the section that is read ---

  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) {
      for (const link of links.values()) link.classList.remove("here");
      links.get(entry.target.id)?.classList.add("here");
    }
  }, { rootMargin: "-10% 0px -80% 0px" });
  for (const part of document.querySelectorAll("section")) watcher.observe(part);

  show();
})();
