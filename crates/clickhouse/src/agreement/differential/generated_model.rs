//! The access model of generated policies.

use std::sync::LazyLock;

use tracewarden_model::AccessModel;
use tracewarden_testkit::policies::Generator;

pub(super) static MODEL: LazyLock<AccessModel> = LazyLock::new(Generator::model);
