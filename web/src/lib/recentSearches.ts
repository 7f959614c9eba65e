/** Where this browser keeps the recent searches of the signed-in user. */
const STORAGE_KEY = "tracewarden-recent-searches";
const MAX_SEARCHES = 8;
/** Maximum length of one. Longer ones would fill the list, and the storage. */
const MAX_LENGTH = 2_000;

/** Whether another window has cleared them: this one may not know yet that its user has signed out. */
let isClearedElsewhere = false;
globalThis.addEventListener?.("storage", ({ key, newValue }) => {
  if (key === STORAGE_KEY && newValue === null) {
    isClearedElsewhere = true;
  }
});

type Stored = { user: string; searches: string[] };

function stored(): Stored | null {
  try {
    const value: unknown = JSON.parse(localStorage.getItem(STORAGE_KEY) ?? "null");
    const { user, searches } = (value ?? {}) as Partial<Stored>;
    const isValid = Array.isArray(searches) && searches.every((search) => typeof search === "string");
    return typeof user === "string" && isValid ? { user, searches } : null;
  } catch {
    // Storage may be disabled, and its content may be of another program.
    return null;
  }
}

/** Returns the conditions of a user's recent searches as text, newest first. */
export function recentSearches(user: string): readonly string[] {
  const found = stored();
  return found?.user === user ? found.searches : [];
}

/** Puts a search first among the recent ones. Those of another user are removed. */
export function rememberSearch(user: string, where: string): void {
  if (where.length > MAX_LENGTH || isClearedElsewhere) {
    return;
  }
  const others = recentSearches(user).filter((other) => other !== where);
  const searches = [where, ...others].slice(0, MAX_SEARCHES);
  try {
    localStorage.setItem(STORAGE_KEY, JSON.stringify({ user, searches } satisfies Stored));
  } catch {
    // Nothing depends on it.
  }
}

/** Removes the searches of any other user. Must be called when the user of this page is known. */
export function keepSearchesOf(user: string): void {
  isClearedElsewhere = false;
  const found = stored();
  if (found !== null && found.user !== user) {
    clearRecentSearches();
  }
}

/** Removes all, so that the next user of this browser does not see them. */
export function clearRecentSearches(): void {
  try {
    localStorage.removeItem(STORAGE_KEY);
  } catch {
    // There are none without storage.
  }
}
