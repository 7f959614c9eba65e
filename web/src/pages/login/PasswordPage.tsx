import { Container, Text } from "@mantine/core";
import { getRouteApi, useRouter } from "@tanstack/react-router";
import { refreshMe } from "../../app/refreshMe";
import { PageTitle } from "../../components/PageTitle";
import { PasswordForm } from "./PasswordForm";

const route = getRouteApi("/app/password");

/** Page after the first sign-in: users must change their password before they can do anything else. */
export function PasswordPage() {
  const { to } = route.useSearch();
  const router = useRouter();
  return (
    <Container size="xs" py="lg">
      <PageTitle title="Choose your own password" />
      <Text mb="md">Your password was generated. Before you continue, choose one that only you know.</Text>
      <PasswordForm
        onChanged={async () => {
          await refreshMe();
          router.history.push(router.history.createHref(`/ui${to ?? "/search"}`));
        }}
      />
    </Container>
  );
}
