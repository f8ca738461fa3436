// Keeps the files of the site, so that it works offline. The program's own page does not use it.
//
// All files of a version lie in a folder of its name, so that files of two versions never stand side by side: the first
// page says which version it is of. It is asked for where there is a network, and everything else is kept for ever.

/** The version of the site, which the page names when it registers this worker. */
const VERSION = new URL(self.location.href).searchParams.get("version");
/** How the names of this site's caches begin: an origin may have several sites. No address has a space. */
const OWN = `onedraw ${self.registration.scope} `;
const KEPT = OWN + VERSION;
const FIRST = ["./", "index.html"];
/** The statuses that say that a file is not there. */
const GONE = [404, 410];

self.addEventListener("install", (event) => event.waitUntil(keepAll()));
self.addEventListener("activate", (event) => event.waitUntil(forgetOthers()));
self.addEventListener("fetch", (event) => {
  const { method, mode } = event.request;
  if (method !== "GET") return;
  if (mode === "navigate") {
    event.waitUntil(leaveWithSite());
    event.respondWith(fetch(event.request, { cache: "no-cache" }).catch(() => offline(event.request)));
  } else {
    event.respondWith(answer(event.request));
  }
});

async function keepAll() {
  const { files } = await (await got(new Request(`${VERSION}/site.json`, { cache: "no-store" }))).json();
  const pages = await Promise.all(FIRST.map(page));
  const cache = await caches.open(KEPT);
  for (const [index, file] of FIRST.entries()) await cache.put(file, pages[index]);
  // The names of these change with what is in them.
  for (const file of files) await cache.put(file, (await caches.match(file)) ?? (await got(new Request(file))));
}

/** A first page. Where the site has another version by now, its page is not one for these files. */
async function page(file) {
  const response = await got(new Request(file, { cache: "reload" }));
  const text = await response.clone().text();
  if (!text.includes(`"${VERSION}/`)) throw new Error(`${file} is not of version ${VERSION}`);
  return response;
}

async function got(request) {
  const response = await fetch(request);
  if (!response.ok) throw new Error(`${request.url}: ${response.status}`);
  return response;
}

async function forgetOthers() {
  await forget((name) => name !== KEPT);
  await self.clients.claim();
}

/** Deletes caches of this site, and of no other. */
async function forget(isMeant) {
  for (const name of await caches.keys()) if (name.startsWith(OWN) && isMeant(name)) await caches.delete(name);
}

async function answer(request) {
  return (await kept(request)) ?? fetch(request);
}

async function offline(request) {
  return (await kept(request)) ?? Response.error();
}

/** What is kept. Where the browser refuses its storage, nothing is. */
async function kept(request) {
  try {
    return await (await caches.open(KEPT)).match(request, { ignoreSearch: true });
  } catch {
    return undefined;
  }
}

/**
 * Where the site is no longer, its worker goes, too, with what it kept. Without a network nobody knows, and a server that
 * is busy or broken for a while has not lost the site.
 */
async function leaveWithSite() {
  const list = await fetch("site.json", { cache: "no-store" }).catch(() => null);
  if (list === null || !GONE.includes(list.status)) return;
  await self.registration.unregister();
  await forget(() => true);
}
