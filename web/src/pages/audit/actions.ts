/** Labels of the audit actions, in the groups of the filter. */
const GROUPS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "Reading traces": {
    "traces.query": "Searched traces",
    "traces.get": "Opened a trace",
    "traces.explain": "Asked why a trace is seen",
    "traces.viewers": "Asked who can see a trace",
    "traces.values": "Listed values of a field",
    "traces.stats": "Counted and measured traces",
    "filter.schema": "Listed the fields of filters",
    "tools.call": "Made a call of no tool, or one that could not be read",
    "policy.check": "Tried an expression on recent traces",
    "preview.begin": "Began to view as another",
    "preview.end": "Ended viewing as another",
  },
  "Own account": {
    login: "Logged in",
    logout: "Logged out",
    "password.change": "Changed the own password",
    "session.end": "Ended an own session",
    "api_key.create": "Created an API key",
    "api_key.revoke": "Revoked an API key",
    "api_key.use": "Used a key outside its tools",
  },
  Users: {
    "user.create": "Created a user",
    "user.update": "Changed a user",
    "user.delete": "Deleted a user",
    "user.rotate_password": "Gave a user a new password",
    "user.end_sessions": "Ended sessions of a user",
    "user.revoke_api_keys": "Revoked API keys of a user",
  },
  "Roles and trace source": {
    "role.put": "Saved a role",
    "role.delete": "Deleted a role",
    "schema.discover": "Looked into a table",
    "schema.put_binding": "Bound a table",
    "schema.put_fields": "Marked fields",
    "policy.preview": "Counted what a changed role would open",
    "policy.overshare": "Counted what a role shows by sharing",
    "model.export": "Downloaded the access model",
    "model.plan": "Counted what a file with the model would change",
    "model.import": "Applied a file with the access model",
    "model.restore": "Restored an earlier access model",
  },
  Service: {
    administration: "Was refused administration",
    "admin.create": "Created the first administrator",
    "admin.replace_hash": "Replaced the administrator's password",
    "audit.prune": "Removed old records",
  },
};

const LABELS = new Map(Object.values(GROUPS).flatMap((group) => Object.entries(group)));

/** Label of an action, or its code if a later version introduced it. */
export function actionLabel(action: string): string {
  return LABELS.get(action) ?? action;
}

type Choice = { value: string; label: string };

/** Options of the action filter. They include the selected action even if it is unknown. */
export function actionChoices(chosen: string | undefined): { group: string; items: Choice[] }[] {
  const groups = Object.entries(GROUPS).map(([group, actions]) => ({
    group,
    items: Object.entries(actions).map(([value, label]) => ({ value, label: `${label} (${value})` })),
  }));
  return chosen === undefined || LABELS.has(chosen)
    ? groups
    : [{ group: "Other", items: [{ value: chosen, label: chosen }] }, ...groups];
}
