import type { Locator, Page } from "playwright-core";
import { beforeAll, describe, expect, test } from "vitest";
import { newVisitor, type Visitor } from "./browser";
import { pagePath, signIn, waitUntilDetached, waitUntilIdle, waitUntilVisible } from "./pages";
import { ensureSetUp, ensureUser } from "./service";
import type { Session } from "./session";

const ROLE = "previewed";
/** User with only the previewed role. */
const SINGLE_ROLE_USER = "previewed-alone";
/** User with another role too, which grants access to some of the same traces. */
const TWO_ROLES_USER = "previewed-both";
const OTHER_ROLE = "previewed-other";

const POLICY = { title: "The fraud checks", expression: 'ServiceName == "fraud"' };
const DRAFT_EXPRESSION = 'ServiceName == "assistant"';

let admin: Session;
let sessions: Record<string, Session>;
let visitor: Visitor;

beforeAll(async () => {
  admin = await ensureSetUp();
  await admin.call("PUT", `/roles/${OTHER_ROLE}`, {
    policies: [{ title: "The ledger", expression: 'ServiceName == "ledger"' }],
  });
  await storePolicy();
  sessions = {
    [SINGLE_ROLE_USER]: await ensureUser(admin, SINGLE_ROLE_USER, [ROLE]),
    [TWO_ROLES_USER]: await ensureUser(admin, TWO_ROLES_USER, [ROLE, OTHER_ROLE]),
  };
  visitor = await newVisitor("previewing a change");
  await signIn(visitor.page, "admin");
});

const storePolicy = () => admin.call("PUT", `/roles/${ROLE}`, { policies: [POLICY] });

/** Ids of all traces of the last week that the user sees. */
async function visibleIds(username: string): Promise<Set<string>> {
  const ids = new Set<string>();
  const from = new Date(Date.now() - 7 * 86_400_000).toISOString();
  const to = new Date().toISOString();
  for (let cursor: string | undefined, first = true; first || cursor !== undefined; first = false) {
    const page: { trace_ids: string[]; next_cursor?: string } = await (sessions[username] as Session).call(
      "POST",
      "/traces/query",
      { view: "ids", limit: 200, from, to, ...(cursor === undefined ? {} : { cursor }) },
    );
    for (const id of page.trace_ids) {
      ids.add(id);
    }
    cursor = page.next_cursor;
  }
  return ids;
}

const difference = (a: Set<string>, b: Set<string>) => [...a].filter((id) => !b.has(id));

const cellNumber = async (cell: Locator): Promise<number> =>
  Number(/^[\d,]+/.exec((await cell.innerText()).trim())?.[0].replaceAll(",", ""));

async function openReview(page: Page, expression: string): Promise<Locator> {
  await page.goto(pagePath(`/roles/${ROLE}`));
  await waitUntilIdle(page);
  await page.getByRole("textbox", { name: "Expression" }).click();
  await page.keyboard.press("ControlOrMeta+a");
  await page.keyboard.insertText(expression);
  await waitUntilVisible(page.getByRole("status").filter({ hasText: /^Valid/ }));
  await page.getByRole("button", { name: "Review and save" }).click();
  const dialog = page.getByRole("dialog", { name: `Review the changes of ${ROLE}` });
  await waitUntilVisible(dialog);
  return dialog;
}

const chooseWeek = (dialog: Locator) => dialog.getByText("7 d", { exact: true }).click();

describe("the review of a changed role", () => {
  test("predicts the effect of saving for each member", { timeout: 180_000 }, async () => {
    const { page } = visitor;
    const dialog = await openReview(page, DRAFT_EXPRESSION);
    await chooseWeek(dialog);
    await waitUntilIdle(page);
    const table = dialog.getByRole("table", { name: "Users whose access was compared" });
    const shownNumbers: Record<string, number[]> = {};
    for (const username of [SINGLE_ROLE_USER, TWO_ROLES_USER]) {
      const cells = table
        .getByRole("row")
        .filter({ has: page.getByRole("rowheader", { name: username, exact: true }) });
      shownNumbers[username] = [];
      for (const index of [0, 1, 2]) {
        shownNumbers[username].push(await cellNumber(cells.getByRole("cell").nth(index)));
      }
    }
    const links = await dialog
      .getByRole("list", { name: `Traces that ${TWO_ROLES_USER} loses` })
      .getByRole("link")
      .evaluateAll((found) => found.map((link) => link.getAttribute("href")?.split("/").at(-1) ?? ""));

    const before: Record<string, Set<string>> = {
      [SINGLE_ROLE_USER]: await visibleIds(SINGLE_ROLE_USER),
      [TWO_ROLES_USER]: await visibleIds(TWO_ROLES_USER),
    };
    await dialog.getByRole("button", { name: "Save", exact: true }).click();
    await waitUntilDetached(dialog);
    const losses: number[] = [];
    for (const username of [SINGLE_ROLE_USER, TWO_ROLES_USER]) {
      const [oldIds, newIds] = [before[username] ?? new Set<string>(), await visibleIds(username)];
      const [lost, gained] = [difference(oldIds, newIds), difference(newIds, oldIds)];
      losses.push(lost.length);
      expect([username, shownNumbers[username]]).toEqual([
        username,
        [lost.length, gained.length, newIds.size - gained.length],
      ]);
      if (username === TWO_ROLES_USER) {
        expect(lost).toEqual(expect.arrayContaining(links));
      }
    }
    // The other role still grants access to some of the role's traces, because the preview compares the user's whole access.
    const [lostBySingle = 0, lostByOther = 0] = losses;
    expect(lostBySingle).toBeGreaterThan(0);
    expect(lostByOther).toBeLessThan(lostBySingle);
  });

  test("shows collateral access, by service or another field", { timeout: 120_000 }, async () => {
    const { page } = visitor;
    await storePolicy();
    const dialog = await openReview(page, 'ServiceName == "fraud" || ServiceName == "ledger"');
    await chooseWeek(dialog);
    await waitUntilIdle(page);
    await waitUntilVisible(dialog.getByText(/of ServiceName are seen only because traces are shown whole/));
    await dialog.getByRole("combobox", { name: "Field" }).click();
    await page.getByRole("option", { name: 'ResourceAttributes["team"]' }).click();
    await waitUntilIdle(page);
    await waitUntilVisible(dialog.getByText(/of ResourceAttributes\["team"\]/));
  });

  test("can be saved during counting, which can be stopped", { timeout: 120_000 }, async () => {
    const { page } = visitor;
    await storePolicy();
    let release: () => void = () => undefined;
    const blocked = new Promise<void>((resolve) => {
      release = resolve;
    });
    await page.route("**/policies/preview", async (route) => {
      await blocked;
      await route.abort().catch(() => undefined);
    });
    const dialog = await openReview(page, 'ServiceName == "ledger"');
    await waitUntilVisible(dialog.getByRole("progressbar", { name: "Time taken" }));
    await dialog.getByRole("button", { name: "Stop" }).click();
    await waitUntilVisible(dialog.getByText("Stopped: the impact is not known."));
    await dialog.getByRole("button", { name: "Count", exact: true }).click();
    await waitUntilVisible(dialog.getByRole("progressbar", { name: "Time taken" }));
    await dialog.getByRole("button", { name: "Save", exact: true }).click();
    await waitUntilDetached(dialog);
    release();
    await page.unroute("**/policies/preview");
    expect(await admin.call("GET", `/roles/${ROLE}`)).toMatchObject({
      policies: [{ expression: 'ServiceName == "ledger"' }],
    });
  });

  test("reports that counting failed, and can be saved nevertheless", { timeout: 120_000 }, async () => {
    const { page } = visitor;
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
    await waitUntilVisible(dialog.getByRole("alert").filter({ hasText: "The impact could not be counted" }));
    expect(await dialog.getByRole("button", { name: "Save", exact: true }).isEnabled()).toBe(true);
    await page.unroute("**/policies/preview");
    await dialog.getByRole("button", { name: "Try again" }).click();
    await waitUntilVisible(dialog.getByRole("heading", { name: "Role in isolation" }));
    await dialog.getByRole("button", { name: "Back" }).click();
    await waitUntilDetached(dialog);
  });
});

describe("a stored role", () => {
  test("shows before it is deleted how many traces its members lose", {
    timeout: 120_000,
  }, async () => {
    const { page } = visitor;
    await storePolicy();
    const before = await visibleIds(SINGLE_ROLE_USER);
    await page.goto(pagePath(`/roles/${ROLE}`));
    await waitUntilIdle(page);
    await page.getByRole("button", { name: "Delete role" }).click();
    const dialog = page.getByRole("dialog", { name: `Delete ${ROLE}?` });
    await chooseWeek(dialog);
    await waitUntilIdle(page);
    const row = dialog
      .getByRole("table", { name: "Users whose access was compared" })
      .getByRole("row")
      .filter({ has: page.getByRole("rowheader", { name: SINGLE_ROLE_USER, exact: true }) });
    expect(await cellNumber(row.getByRole("cell").first())).toBe(before.size);
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await waitUntilDetached(dialog);
  });

  test("shows the collateral access of its members on request", {
    timeout: 120_000,
  }, async () => {
    const { page } = visitor;
    await page.goto(pagePath(`/roles/${ROLE}`));
    await waitUntilIdle(page);
    const section = page.getByRole("region", { name: "Collateral access" });
    await chooseWeek(section);
    await section.getByRole("button", { name: "Count", exact: true }).click();
    await waitUntilIdle(page);
    const visible = await visibleIds(SINGLE_ROLE_USER);
    const answer = await admin.call<{
      traces: number;
      only_shared: number;
      distinct: number;
      sampled: boolean;
    }>("POST", "/policies/collateral-access", {
      role: ROLE,
      from: new Date(Date.now() - 7 * 86_400_000).toISOString(),
      seconds: 60,
    });
    expect(answer).toMatchObject({ traces: visible.size, sampled: false });
    await waitUntilVisible(
      section.getByText(
        `${answer.only_shared} of ${answer.distinct} values of ServiceName are seen only because traces are shown whole`,
        { exact: false },
      ),
    );
  });

  test("reports whose collateral access is shown if policies depend on the member", {
    timeout: 120_000,
  }, async () => {
    const { page } = visitor;
    const role = "previewed-own-team";
    await admin.call("PUT", `/roles/${role}`, {
      policies: [{ title: "Their team", expression: 'ResourceAttributes["team"] == user.attributes.team' }],
    });
    for (const team of ["payments", "logistics"]) {
      await ensureUser(admin, `${role}-${team}`, [role], { team });
    }
    await page.goto(pagePath(`/roles/${role}`));
    await waitUntilIdle(page);
    const section = page.getByRole("region", { name: "Collateral access" });
    await chooseWeek(section);
    await section.getByRole("button", { name: "Count", exact: true }).click();
    await waitUntilIdle(page);
    const answer = await admin.call<{ only_shared: number; members_listed: number; notes: string[] }>(
      "POST",
      "/policies/collateral-access",
      { role, from: new Date(Date.now() - 7 * 86_400_000).toISOString(), seconds: 60 },
    );
    // The traces that one team's policies name are collateral access for the other team.
    expect(answer.only_shared).toBeGreaterThan(0);
    expect(answer.members_listed).toBe(1);
    expect(answer.notes).toHaveLength(1);
    await waitUntilVisible(section.getByText("counted for 2 of 2 members", { exact: false }));
    await waitUntilVisible(section.getByText(answer.notes[0] as string));
  });
});

describe("a changed binding", () => {
  test("shows the traces that users would gain and lose", { timeout: 120_000 }, async () => {
    const { page } = visitor;
    await storePolicy();
    const { binding } = (await admin.call("GET", "/schema")) as {
      binding: { database: string; table: string };
    };
    await page.goto(
      pagePath(`/source/setup?step=columns&database=${binding.database}&table=${binding.table}`),
    );
    await page.getByRole("button", { name: "Add a value" }).click();
    await page.getByRole("combobox", { name: "Column" }).fill("ServiceName");
    await page.getByRole("option", { name: "ServiceName", exact: true }).click();
    await page.getByRole("textbox", { name: "Value" }).fill("fraud");
    await page.getByRole("button", { name: "Count gained and lost traces" }).click();
    await waitUntilIdle(page);
    const table = page.getByRole("table", { name: "Users whose access was compared" });
    const numbers = async (username: string) => {
      const cells = table
        .getByRole("row")
        .filter({ has: page.getByRole("rowheader", { name: username, exact: true }) })
        .getByRole("cell");
      return await Promise.all([0, 1, 2].map((index) => cellNumber(cells.nth(index))));
    };
    // Only spans of this service remain, so its traces stay visible, and those of the other role do not.
    const [lost, gained, unchanged] = await numbers(SINGLE_ROLE_USER);
    expect([lost, gained]).toEqual([0, 0]);
    expect(unchanged).toBeGreaterThan(0);
    expect((await numbers(TWO_ROLES_USER))[0]).toBeGreaterThan(0);
    expect(((await admin.call("GET", "/schema")) as { binding: object }).binding).toEqual(binding);
  });
});
