import { PageTitle } from "../../components/PageTitle";

export function RolePage() {
  return <PageTitle title="Role" />;
}

export function NewRolePage() {
  return <PageTitle title="New role" />;
}
