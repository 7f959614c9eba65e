import { PageTitle } from "../../components/PageTitle";

export function UserPage() {
  return <PageTitle title="UserPage" />;
}
