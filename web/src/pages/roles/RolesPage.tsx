import { PageTitle } from "../../components/PageTitle";

export function RolesPage() {
  return <PageTitle title="RolesPage" />;
}
