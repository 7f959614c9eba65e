import type { Locator, Page } from "playwright-core";
import { beforeAll, describe, expect, test } from "vitest";
import { type Visitor, visitor } from "./browser";
import { at, gone, logIn, quiet, shown } from "./pages";
import { ensureSetUp, person } from "./service";
import type { Session } from "./session";

const ROLE = "previewed";
/** User with only the previewed role. */
const ALONE = "previewed-alone";
/** User with another role too, which grants access to some of the same traces. */
const BOTH = "previewed-both";
const OTHER = "previewed-other";

const POLICY = { title: "The fraud checks", expression: 'ServiceName == "fraud"' };
const DRAFT = 'ServiceName == "assistant"';

let admin: Session;
let sessions: Record<string, Session>;
let visit: Visitor;

beforeAll(async () => {
  admin = await ensureSetUp();
  await admin.call("PUT", `/roles/${OTHER}`, {
    policies: [{ title: "The ledger", expression: 'ServiceName == "ledger"' }],
  });
  await storePolicy();
  sessions = {
    [ALONE]: await person(admin, ALONE, [ROLE]),
    [BOTH]: await person(admin, BOTH, [ROLE, OTHER]),
  };
  visit = await visitor("previewing a change");
  await logIn(visit.page, "admin");
});

const storePolicy = () => admin.call("PUT", `/roles/${ROLE}`, { policies: [POLICY] });

/** Ids of all traces of the last week that the user sees. */
async function seen(username: string): Promise<Set<string>> {
  const found = new Set<string>();
  const from = new Date(Date.now() - 7 * 86_400_000).toISOString();
  const to = new Date().toISOString();
  for (let cursor: string | undefined, first = true; first || cursor !== undefined; first = false) {
    const page: { trace_ids: string[]; next_cursor?: string } = await (sessions[username] as Session).call(
      "POST",
      "/traces/query",
      { view: "ids", limit: 200, from, to, ...(cursor === undefined ? {} : { cursor }) },
    );
    for (const id of page.trace_ids) {
      found.add(id);
    }
    cursor = page.next_cursor;
  }
  return found;
}

const minus = (one: Set<string>, other: Set<string>) => [...one].filter((id) => !other.has(id));

const number = async (cell: Locator): Promise<number> =>
  Number(/^[\d,]+/.exec((await cell.innerText()).trim())?.[0].replaceAll(",", ""));

async function openReview(page: Page, expression: string): Promise<Locator> {
  await page.goto(at(`/roles/${ROLE}`));
  await quiet(page);
  await page.getByRole("textbox", { name: "Expression" }).click();
  await page.keyboard.press("ControlOrMeta+a");
  await page.keyboard.insertText(expression);
  await shown(page.getByRole("status").filter({ hasText: /^Valid/ }));
  await page.getByRole("button", { name: "Review and save" }).click();
  const dialog = page.getByRole("dialog", { name: `Review the changes of ${ROLE}` });
  await shown(dialog);
  return dialog;
}

const week = (dialog: Locator) => dialog.getByText("7 d", { exact: true }).click();

describe("the review of a changed role", () => {
  test("predicts the effect of saving for each member", { timeout: 180_000 }, async () => {
    const { page } = visit;
    const dialog = await openReview(page, DRAFT);
    await week(dialog);
    await quiet(page);
    const table = dialog.getByRole("table", { name: "Users whose access was compared" });
    const shownNumbers: Record<string, number[]> = {};
    for (const username of [ALONE, BOTH]) {
      const cells = table
        .getByRole("row")
        .filter({ has: page.getByRole("rowheader", { name: username, exact: true }) });
      shownNumbers[username] = [];
      for (const place of [0, 1, 2]) {
        shownNumbers[username].push(await number(cells.getByRole("cell").nth(place)));
      }
    }
    const links = await dialog
      .getByRole("list", { name: `Traces that ${BOTH} loses` })
      .getByRole("link")
      .evaluateAll((found) => found.map((link) => link.getAttribute("href")?.split("/").at(-1) ?? ""));

    const before: Record<string, Set<string>> = { [ALONE]: await seen(ALONE), [BOTH]: await seen(BOTH) };
    await dialog.getByRole("button", { name: "Save", exact: true }).click();
    await gone(dialog);
    const losses: number[] = [];
    for (const username of [ALONE, BOTH]) {
      const [old, now] = [before[username] ?? new Set<string>(), await seen(username)];
      const [lost, gained] = [minus(old, now), minus(now, old)];
      losses.push(lost.length);
      expect([username, shownNumbers[username]]).toEqual([
        username,
        [lost.length, gained.length, now.size - gained.length],
      ]);
      if (username === BOTH) {
        expect(lost).toEqual(expect.arrayContaining(links));
      }
    }
    // The other role still grants access to some of the role's traces, because the preview compares the user's whole access.
    const [alone = 0, both = 0] = losses;
    expect(alone).toBeGreaterThan(0);
    expect(both).toBeLessThan(alone);
  });

  test("shows collateral access, by service or another field", { timeout: 120_000 }, async () => {
    const { page } = visit;
    await storePolicy();
    const dialog = await openReview(page, 'ServiceName == "fraud" || ServiceName == "ledger"');
    await week(dialog);
    await quiet(page);
    await shown(dialog.getByText(/of ServiceName are seen only because traces are shown whole/));
    await dialog.getByRole("combobox", { name: "Field" }).click();
    await page.getByRole("option", { name: 'ResourceAttributes["team"]' }).click();
    await quiet(page);
    await shown(dialog.getByText(/of ResourceAttributes\["team"\]/));
  });

  test("can be saved during counting, which can be stopped", { timeout: 120_000 }, async () => {
    const { page } = visit;
    await storePolicy();
    let release: () => void = () => undefined;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    await page.route("**/policies/preview", async (route) => {
      await held;
      await route.abort().catch(() => undefined);
    });
    const dialog = await openReview(page, 'ServiceName == "ledger"');
    await shown(dialog.getByRole("progressbar", { name: "Time taken" }));
    await dialog.getByRole("button", { name: "Stop" }).click();
    await shown(dialog.getByText("Stopped: the impact is not known."));
    await dialog.getByRole("button", { name: "Count", exact: true }).click();
    await shown(dialog.getByRole("progressbar", { name: "Time taken" }));
    await dialog.getByRole("button", { name: "Save", exact: true }).click();
    await gone(dialog);
    release();
    await page.unroute("**/policies/preview");
    expect(await admin.call("GET", `/roles/${ROLE}`)).toMatchObject({
      policies: [{ expression: 'ServiceName == "ledger"' }],
    });
  });

  test("reports that counting failed, and can be saved nevertheless", { timeout: 120_000 }, async () => {
    const { page } = visit;
    await storePolicy();
    await page.route("**/policies/preview", (route) =>
      route.fulfill({
        status: 422,
        contentType: "application/problem+json",
        body: JSON.stringify({
          type: "about:blank",
          title: "Time out",
          status: 422,
          code: "query_timeout",
          detail: "counting took too long",
          request_id: "",
        }),
      }),
    );
    const dialog = await openReview(page, 'ServiceName == "email"');
    await shown(dialog.getByRole("alert").filter({ hasText: "The impact could not be counted" }));
    expect(await dialog.getByRole("button", { name: "Save", exact: true }).isEnabled()).toBe(true);
    await page.unroute("**/policies/preview");
    await dialog.getByRole("button", { name: "Try again" }).click();
    await shown(dialog.getByRole("heading", { name: "Role in isolation" }));
    await dialog.getByRole("button", { name: "Back" }).click();
    await gone(dialog);
  });
});

describe("a stored role", () => {
  test("shows before it is deleted how many traces its members lose", {
    timeout: 120_000,
  }, async () => {
    const { page } = visit;
    await storePolicy();
    const before = await seen(ALONE);
    await page.goto(at(`/roles/${ROLE}`));
    await quiet(page);
    await page.getByRole("button", { name: "Delete role" }).click();
    const dialog = page.getByRole("dialog", { name: `Delete ${ROLE}?` });
    await week(dialog);
    await quiet(page);
    const row = dialog
      .getByRole("table", { name: "Users whose access was compared" })
      .getByRole("row")
      .filter({ has: page.getByRole("rowheader", { name: ALONE, exact: true }) });
    expect(await number(row.getByRole("cell").first())).toBe(before.size);
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await gone(dialog);
  });

  test("shows the collateral access of its members on request", {
    timeout: 120_000,
  }, async () => {
    const { page } = visit;
    await page.goto(at(`/roles/${ROLE}`));
    await quiet(page);
    const section = page.getByRole("region", { name: "Collateral access" });
    await week(section);
    await section.getByRole("button", { name: "Count", exact: true }).click();
    await quiet(page);
    const opened = await seen(ALONE);
    const answer = await admin.call<{
      traces: number;
      only_shared: number;
      distinct: number;
      sampled: boolean;
    }>("POST", "/policies/overshare", {
      role: ROLE,
      from: new Date(Date.now() - 7 * 86_400_000).toISOString(),
      seconds: 60,
    });
    expect(answer).toMatchObject({ traces: opened.size, sampled: false });
    await shown(
      section.getByText(
        `${answer.only_shared} of ${answer.distinct} values of ServiceName are seen only because traces are shown whole`,
        { exact: false },
      ),
    );
  });

  test("reports whose collateral access is shown if policies depend on the member", {
    timeout: 120_000,
  }, async () => {
    const { page } = visit;
    const role = "previewed-own-team";
    await admin.call("PUT", `/roles/${role}`, {
      policies: [{ title: "Their team", expression: 'ResourceAttributes["team"] == user.attributes.team' }],
    });
    for (const team of ["payments", "logistics"]) {
      await person(admin, `${role}-${team}`, [role], { team });
    }
    await page.goto(at(`/roles/${role}`));
    await quiet(page);
    const section = page.getByRole("region", { name: "Collateral access" });
    await week(section);
    await section.getByRole("button", { name: "Count", exact: true }).click();
    await quiet(page);
    const answer = await admin.call<{ only_shared: number; members_told: number; notes: string[] }>(
      "POST",
      "/policies/overshare",
      { role, from: new Date(Date.now() - 7 * 86_400_000).toISOString(), seconds: 60 },
    );
    // The traces that one team's policies name are collateral access for the other team.
    expect(answer.only_shared).toBeGreaterThan(0);
    expect(answer.members_told).toBe(1);
    expect(answer.notes).toHaveLength(1);
    await shown(section.getByText("counted for 2 of 2 members", { exact: false }));
    await shown(section.getByText(answer.notes[0] as string));
  });
});
