import { Button } from "@mantine/core";
import { IconLock } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useMe } from "../app/useMe";
import { EmptyState } from "./EmptyState";

/** A page for administrators only. Other users get a notice; the service rejects their requests in any case. */
export function AdminOnly({ children }: { children: ReactNode }) {
  const me = useMe();
  if (me.id !== "" && !me.is_admin) {
    return (
      <EmptyState title="This page is for administrators" icon={<IconLock size={32} aria-hidden />}>
        You are signed in as {me.username}, who does not have the admin role. Ask an administrator if you need
        it.
        <br />
        <Button component={Link} to="/search" variant="default" mt="md">
          Go to the search
        </Button>
      </EmptyState>
    );
  }
  return children;
}
