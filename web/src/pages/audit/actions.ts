/** Labels of the audit actions, in the groups of the filter. */
const ACTION_GROUPS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "Reading traces": {
    "traces.query": "Searched traces",
    "traces.get": "Opened a trace",
    "traces.explain": "Explained access to a trace",
    "traces.viewers": "Listed users who can see a trace",
    "traces.values": "Listed values of a field",
    "traces.stats": "Counted and measured traces",
    "filter.schema": "Listed the searchable fields",
    "tools.call": "Called an unknown tool, or sent an invalid call",
    "policy.check": "Tested an expression on recent traces",
    "preview.begin": 'Started "view as"',
    "preview.end": 'Ended "view as"',
  },
  "Own account": {
    login: "Signed in",
    logout: "Signed out",
    "logout.provider": "Was signed out by an identity provider",
    "password.change": "Changed their own password",
    "session.end": "Signed out one of their own sessions",
    "api_key.create": "Created an API key",
    "api_key.revoke": "Revoked an API key",
    "api_key.use": "Used an API key outside its tools",
  },
  Users: {
    "user.create": "Created a user",
    "user.update": "Changed a user",
    "user.delete": "Deleted a user",
    "user.map": "Got other roles or attributes from an identity provider",
    "user.link": "Linked a user to an identity provider",
    "user.unlink": "Unlinked a user from an identity provider",
    "user.rotate_password": "Rotated the password of a user",
    "user.end_sessions": "Signed out sessions of a user",
    "user.create_api_key": "Created an API key for a service account",
    "user.revoke_api_keys": "Revoked API keys of a user",
  },
  "Roles and trace source": {
    "role.put": "Saved a role",
    "role.delete": "Deleted a role",
    "mapping.put": "Saved the mapping of an identity provider",
    "schema.discover": "Sampled a table",
    "schema.put_binding": "Bound a table",
    "schema.put_fields": "Marked fields",
    "policy.preview": "Previewed a role change",
    "policy.collateral_access": "Counted collateral access of a role",
    "model.export": "Downloaded the access model",
    "model.plan": "Planned an import of the access model",
    "model.import": "Imported the access model",
    "model.restore": "Restored an earlier version of the access model",
  },
  Service: {
    administration: "Was denied administrator access",
    "admin.create": "Created the first administrator",
    "admin.replace_hash": "Replaced the administrator's password",
    "break_glass.create": "Created a link that signs in a user once",
    "audit.prune": "Removed old records",
  },
};

const LABELS = new Map(Object.values(ACTION_GROUPS).flatMap((group) => Object.entries(group)));

/** Label of an action, or its code if a later version introduced it. */
export function actionLabel(action: string): string {
  return LABELS.get(action) ?? action;
}

type Option = { value: string; label: string };

/** Options of the action filter. They include the selected action even if it is unknown. */
export function actionOptions(selected: string | undefined): { group: string; items: Option[] }[] {
  const groups = Object.entries(ACTION_GROUPS).map(([group, actions]) => ({
    group,
    items: Object.entries(actions).map(([value, label]) => ({ value, label: `${label} (${value})` })),
  }));
  return selected === undefined || LABELS.has(selected)
    ? groups
    : [{ group: "Other", items: [{ value: selected, label: selected }] }, ...groups];
}
