import { Breadcrumbs, Text } from "@mantine/core";
import { PageLink } from "./links";

const PARENTS = { "/history": "Model history", "/roles": "Roles", "/users": "Users" } as const;

/** Path to a page from the page that lists its kind. */
export function Breadcrumb({ parent, current }: { parent: keyof typeof PARENTS; current: string }) {
  return (
    <Breadcrumbs mb="xs">
      <PageLink to={parent}>{PARENTS[parent]}</PageLink>
      <Text span>{current}</Text>
    </Breadcrumbs>
  );
}
