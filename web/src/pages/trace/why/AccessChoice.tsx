import { Autocomplete, Button, SegmentedControl, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useEffect, useState } from "react";
import { useMe } from "../../../app/useMe";
import { Secondary } from "../../../components/Secondary";
import { knownUsersQuery } from "../../../editor/queries";
import { AccessExplanation } from "./AccessExplanation";
import type { ExplanationSubject, ShowSpan } from "./explanation";
import { ViewersList } from "./ViewersList";
import classes from "./why.module.css";

export type AccessChoiceProps = {
  id: string;
  why: ExplanationSubject;
  user: string | undefined;
  onChange: (why: ExplanationSubject, user?: string) => void;
  onShowSpan: ShowSpan;
  /** Whether the administrator sees the trace, so that their own access can be explained too. */
  canReadTrace: boolean;
};

/** Access explanations for administrators: for one user, or for all users who can see the trace. */
export function AccessChoice({ id, why, user, onChange, onShowSpan, canReadTrace }: AccessChoiceProps) {
  const me = useMe();
  const selected = why === "own" && !canReadTrace ? "user" : why;
  return (
    <Stack gap="sm">
      <SegmentedControl
        size="xs"
        fullWidth
        aria-label="Whose access"
        value={selected}
        onChange={(value) => onChange(value as ExplanationSubject, user)}
        data={[
          ...(canReadTrace ? [{ value: "own", label: me.preview === null ? "Me" : "This preview" }] : []),
          { value: "user", label: "Another user" },
          { value: "viewers", label: "Who can see it" },
        ]}
      />
      {selected === "own" && <AccessExplanation id={id} user={null} onShowSpan={onShowSpan} />}
      {selected === "user" && (
        <>
          <UserForm user={user} onChoose={(username) => onChange("user", username)} />
          {user !== undefined && <AccessExplanation key={user} id={id} user={user} onShowSpan={onShowSpan} />}
        </>
      )}
      {selected === "viewers" && <ViewersList id={id} onExplain={(username) => onChange("user", username)} />}
    </Stack>
  );
}

/** Selects a user from the first ones by name, or by typing, since there may be more. */
function UserForm({ user, onChoose }: { user: string | undefined; onChoose: (username: string) => void }) {
  const users = useQuery(knownUsersQuery);
  const [name, setName] = useState(user ?? "");
  useEffect(() => setName(user ?? ""), [user]);
  const trimmedName = name.trim();
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (trimmedName !== "") {
      onChoose(trimmedName);
    }
  };
  return (
    <form onSubmit={submit} className={classes.choice}>
      <Autocomplete
        size="xs"
        label="Explain for another user"
        placeholder="User name"
        autoComplete="off"
        spellCheck={false}
        limit={100}
        data={(users.data?.users ?? []).map(({ username }) => username)}
        value={name}
        onChange={setName}
        onOptionSubmit={onChoose}
      />
      <Button type="submit" size="xs" variant="default" disabled={trimmedName === ""}>
        Explain
      </Button>
      {users.isError && <Secondary size="xs">The users could not be listed; a name can be typed.</Secondary>}
    </form>
  );
}
