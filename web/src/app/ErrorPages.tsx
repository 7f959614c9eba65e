import { Button, Container } from "@mantine/core";
import { useQueryErrorResetBoundary } from "@tanstack/react-query";
import { type ErrorComponentProps, Link, useRouter } from "@tanstack/react-router";
import { EmptyState } from "../components/EmptyState";
import { ErrorNotice } from "../components/ErrorNotice";

/** Page for unknown paths within the application. */
export function NotFound() {
  return (
    <EmptyState title="There is no such page">
      <Button component={Link} to="/search" variant="default" mt="sm">
        Go to the search
      </Button>
    </EmptyState>
  );
}

/** Page for unknown paths outside the application's frame. */
export function RootNotFound() {
  return (
    <main>
      <NotFound />
    </main>
  );
}

/** Page for an error of a whole page. */
export function PageError({ error }: ErrorComponentProps) {
  const router = useRouter();
  const { reset } = useQueryErrorResetBoundary();
  return (
    <Container size="sm" py="xl">
      <ErrorNotice
        error={error}
        onRetry={() => {
          reset();
          void router.invalidate();
        }}
      />
    </Container>
  );
}
