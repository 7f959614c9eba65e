import { PageTitle } from "../../components/PageTitle";

export function UsersPage() {
  return <PageTitle title="UsersPage" />;
}
