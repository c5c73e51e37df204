//! The test bed itself: its namespaces are apart from the machine's and from each other.

mod common;

use common::each_kernel;
use iptables_updater::Table;

#[test]
fn each_body_starts_with_an_empty_table_of_its_own() {
    each_kernel(
        "each_body_starts_with_an_empty_table_of_its_own",
        |kernel| {
            assert_eq!(kernel.chains(Table::Filter, "own-"), [] as [String; 0]);
            kernel.must_restore("*filter\n:own-a - [0:0]\n-A own-a -j RETURN\nCOMMIT\n");
            assert_eq!(kernel.rules(Table::Filter, "own-a").unwrap(), ["-j RETURN"]);
            assert_eq!(kernel.rules(Table::Filter, "own-b"), None);
        },
    );
}
