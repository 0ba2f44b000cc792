// Shows that the agent waits when the server pushes, and leads to the page. It answers none of the page's requests.
const title = new URL(location.href).searchParams.get('title') || 'CodeLab';
const tag = 'waiting';

addEventListener('install', () => skipWaiting());
addEventListener('push', (event) => event.waitUntil(show()));
addEventListener('notificationclick', (event) => {
  event.notification.close();
  event.waitUntil(lead());
});

/** The windows with the page; the server's other pages have other addresses. */
async function windows() {
  const all = await clients.matchAll({ type: 'window', includeUncontrolled: true });
  return all.filter(({ url }) => new URL(url).pathname === '/');
}

/** A push says nothing, so a notice of the page, which says more, stays. */
async function show() {
  const [known] = await registration.getNotifications({ tag });
  await registration.showNotification(known?.title ?? title, { body: known?.body ?? '', tag, icon: '/favicon-waiting.svg' });
  // Who looks at the page sees it there. A browser allows no pushes to a page that shows nothing for them.
  if (!(await windows()).some(({ focused }) => focused)) return;
  for (const notice of await registration.getNotifications({ tag })) notice.close();
}

async function lead() {
  const [open] = await windows();
  if (!open) return clients.openWindow('/#/waiting');
  await open.focus().catch(() => {});
  open.postMessage('waiting');
}
