//! Inputs on which the simulation and a real kernel once differed, or nearly: each has a name.

/// Each case is a few restore inputs, one after the other.
pub const CASES: &[(&str, &[&str])] = &[
    (
        "a declared chain's old rules stay in the cache of nf_tables",
        &[
            "*filter\n:A - [0:0]\n:B - [0:0]\n-A A -j B\n-A A -j RETURN\nCOMMIT\n",
            "*filter\n:A - [0:0]\n-D A -j B\nCOMMIT\n",
            "*filter\n:A - [0:0]\n-I A 2 -j RETURN\nCOMMIT\n",
            "*filter\n-A A -j B\n-I A 2 -j RETURN\n:A - [0:0]\nCOMMIT\n",
        ],
    ),
    (
        "a declared chain can't be renamed in the same block on nf_tables",
        &[
            "*filter\n:A - [0:0]\nCOMMIT\n",
            "*filter\n:A - [0:0]\n-E A B\nCOMMIT\n",
            "*filter\n:N - [0:0]\n-E N B\nCOMMIT\n",
            "*filter\n-E A B\nCOMMIT\n",
        ],
    ),
    (
        "the last new name wins",
        &[
            "*filter\n:A - [0:0]\n-A INPUT -j A\nCOMMIT\n",
            "*filter\n-E A B\n-E A C\nCOMMIT\n",
        ],
    ),
    (
        "a renamed chain goes by its old name until the commit on nf_tables",
        &[
            "*filter\n:A - [0:0]\n-A INPUT -j A\nCOMMIT\n",
            "*filter\n-E A B\n-A A -j RETURN\nCOMMIT\n",
            "*filter\n-E A B\n-A B -j RETURN\nCOMMIT\n",
        ],
    ),
    (
        "zeroing a kernel chain needs the chain on nf_tables",
        &[
            "*filter\n-Z INPUT\nCOMMIT\n",
            "*filter\n:INPUT - [0:0]\nCOMMIT\n",
            "*filter\n-Z INPUT\nCOMMIT\n",
        ],
    ),
    (
        "zeroing undoes a policy of the same block on nf_tables",
        &[
            "*filter\n-P INPUT DROP\n-Z\nCOMMIT\n",
            "*filter\n-P INPUT DROP\nCOMMIT\n",
            "*filter\n-P INPUT ACCEPT\n-Z INPUT\nCOMMIT\n",
            "*filter\n-Z\n-P INPUT ACCEPT\nCOMMIT\n",
        ],
    ),
    (
        "deleting all chains forgets kernel chains that stay",
        &[
            "*filter\n-A INPUT -j ACCEPT\nCOMMIT\n",
            "*filter\n-X\n-I INPUT -j RETURN\nCOMMIT\n",
            "*filter\n-P INPUT DROP\nCOMMIT\n",
            "*filter\n-X\n-A INPUT -j DROP\nCOMMIT\n",
            "*filter\n-X\n-D INPUT -j DROP\nCOMMIT\n",
        ],
    ),
    (
        "a kernel chain is deleted when nothing is in it",
        &[
            "*filter\n-A INPUT -j ACCEPT\nCOMMIT\n",
            "*filter\n-X INPUT\nCOMMIT\n",
            "*filter\n-D INPUT 1\n-X INPUT\nCOMMIT\n",
            "*filter\n-F INPUT\n-X INPUT\nCOMMIT\n",
            "*filter\n-F OUTPUT\n-X OUTPUT\nCOMMIT\n",
            "*filter\n-P OUTPUT DROP\nCOMMIT\n",
            "*filter\n-X OUTPUT\nCOMMIT\n",
            "*filter\n-X INPUT\nCOMMIT\n",
        ],
    ),
    (
        "a jump to a kernel chain is refused, differently if the chain exists",
        &[
            "*filter\n:A - [0:0]\n-A A -j OUTPUT\nCOMMIT\n",
            "*filter\n:A - [0:0]\n-A A -g OUTPUT\nCOMMIT\n",
            "*filter\n-A OUTPUT -j ACCEPT\nCOMMIT\n",
            "*filter\n:A - [0:0]\n-A A -j OUTPUT\nCOMMIT\n",
        ],
    ),
    (
        "an attached value is taken with its option",
        &[
            "*filter\n:A - [0:0]\n-A A -jACCEPT\nCOMMIT\n",
            "*filter\n:A - [0:0]\n-A A --jump=ACCEPT\nCOMMIT\n",
            "*filter\n:A - [0:0]\n-A A -gA\nCOMMIT\n",
            "*filter\n:A - [0:0]\n-A A -ptcp\nCOMMIT\n",
            "*filter\n:A - [0:0]\n-A A --protocol=TCP\nCOMMIT\n",
            "*filter\n:A - [0:0]\n-A A -ieth0 -oeth1\nCOMMIT\n",
            "*filter\n:A - [0:0]\n-A A -s192.0.2.1\nCOMMIT\n",
            "*filter\n:A - [0:0]\n-A A --dst=192.0.2.1\nCOMMIT\n",
            "*filter\n:A - [0:0]\n-A A -mcomment --comment=x\nCOMMIT\n",
            "*filter\n:A - [0:0]\n-AA -j ACCEPT\nCOMMIT\n",
            "*filter\n-FA\n--flush=A\n-XA\nCOMMIT\n",
        ],
    ),
    (
        "two matches of ports are one on nf_tables",
        &[
            "*filter\n-A INPUT -p tcp ! --dport 22 -m tcp --dport 80\nCOMMIT\n",
            "*filter\n-A INPUT -p tcp --dport 80 -m tcp --dport 80 -j ACCEPT\nCOMMIT\n",
            "*filter\n-A INPUT -p tcp -m tcp -m tcp --dport 80\nCOMMIT\n",
            "*filter\n-A INPUT -p tcp --dport 3 -m tcp --syn\nCOMMIT\n",
            "*filter\n-A INPUT -p tcp --dport 3 -m comment --comment x -m tcp --sport 4\nCOMMIT\n",
            "*filter\n-A INPUT -p udp --dport 3 -m udp ! --sport 4 -m udp --sport 5\nCOMMIT\n",
            "*filter\n-A INPUT -p tcp ! --dport 0:65535\nCOMMIT\n",
            "*filter\n-A INPUT -p tcp --dport 0:65535\nCOMMIT\n",
            "*filter\n-A INPUT -p udp -m udp\nCOMMIT\n",
        ],
    ),
    (
        "an extension loaded twice takes options again",
        &[
            "*filter\n-A INPUT -m comment --comment x -m comment --comment y\nCOMMIT\n",
            "*filter\n-A INPUT -m mark --mark 1 -m mark --mark 2\nCOMMIT\n",
            "*filter\n-A INPUT -m comment --comment x --comment y\nCOMMIT\n",
        ],
    ),
    (
        "ports to translate to need a protocol that has them",
        &[
            "*nat\n:A - [0:0]\n-A A -p icmp -j REDIRECT --to-ports 80\nCOMMIT\n",
            "*nat\n:A - [0:0]\n-A A -p udplite -j REDIRECT --to-ports 80\nCOMMIT\n",
            "*nat\n:A - [0:0]\n-A A ! -p tcp -j MASQUERADE --to-ports 80-90\nCOMMIT\n",
            "*nat\n:A - [0:0]\n-A A -p tcp -j MASQUERADE --to-ports 90-80\nCOMMIT\n",
            "*nat\n:A - [0:0]\n-A A -p tcp -j MASQUERADE --to-ports 90:80\nCOMMIT\n",
            "*nat\n:A - [0:0]\n-A A -p tcp -j REDIRECT --to-ports http\nCOMMIT\n",
            "*nat\n:A - [0:0]\n-A A -p tcp -j DNAT --to-destination :80-90\nCOMMIT\n",
        ],
    ),
    (
        "a table that was never written isn't flushed on nf_tables",
        &["*raw\n:A - [0:0]\n-A A -j ACCEPT\n-F\nCOMMIT\n"],
    ),
    (
        "a flush takes back what the block did before",
        &[
            "*filter\n:A - [0:0]\n-A A -j MASQUERADE\n-F A\nCOMMIT\n",
            "*filter\n-A A -j MASQUERADE\n:A - [0:0]\nCOMMIT\n",
            "*filter\n-A A -j MASQUERADE\n-F\nCOMMIT\n",
            "*filter\n:A - [0:0]\n:B - [0:0]\n-A A -j B\n-F A\n-X B\nCOMMIT\n",
        ],
    ),
    (
        "every rule after the one that breaks the table is blamed on nf_tables",
        &[
            "*filter\n:A - [0:0]\n:B - [0:0]\n-A A -j B\n-A INPUT -j A\n-A B -j A\n-A B -j RETURN\nCOMMIT\n",
            "*filter\n:A - [0:0]\n-A A -j A\n-A OUTPUT\n-A OUTPUT -j A\n-A OUTPUT\nCOMMIT\n",
            "*filter\n:A - [0:0]\n:B - [0:0]\n-A A -j B\n-A B -j A\nCOMMIT\n",
            "*filter\n-A INPUT -j A\nCOMMIT\n",
            "*filter\n-A INPUT -j A\n-D A -j B\nCOMMIT\n",
            "*filter\n-X A\n-A B -j ACCEPT\nCOMMIT\n",
        ],
    ),
    (
        "a report that is too long is cut",
        &[
            "*filter\n:a-chain-with-a-name-of-28-byt - [0:0]\n-A a-chain-with-a-name-of-28-byt -j MASQUERADE\n-A a-chain-with-a-name-of-28-byt -j MASQUERADE\n-A a-chain-with-a-name-of-28-byt -j MASQUERADE\n-A a-chain-with-a-name-of-28-byt -j MASQUERADE\n-A a-chain-with-a-name-of-28-byt -j MASQUERADE\n-A a-chain-with-a-name-of-28-byt -j MASQUERADE\n-A a-chain-with-a-name-of-28-byt -j MASQUERADE\n-A a-chain-with-a-name-of-28-byt -j MASQUERADE\n-A a-chain-with-a-name-of-28-byt -j MASQUERADE\n-A a-chain-with-a-name-of-28-byt -j MASQUERADE\n-A a-chain-with-a-name-of-28-byt -j MASQUERADE\n-A a-chain-with-a-name-of-28-byt -j MASQUERADE\n-A a-chain-with-a-name-of-28-byt -j MASQUERADE\n-A INPUT -j MASQUERADE\nCOMMIT\n",
        ],
    ),
    (
        "on legacy what stands after a rule for every packet isn't looked at",
        &[
            "*nat\n:A - [0:0]\n-A A -j RETURN\n-A A -j MASQUERADE\n-A PREROUTING -j A\nCOMMIT\n",
            "*nat\n:A - [0:0]\n-A A -i + -j RETURN\n-A A -j MASQUERADE\n-A PREROUTING -j A\nCOMMIT\n",
            "*nat\n:A - [0:0]\n-A A -m comment --comment x -j RETURN\n-A A -j MASQUERADE\n-A PREROUTING -j A\nCOMMIT\n",
            "*filter\n:A - [0:0]\n-A A -j RETURN\n-A A -j A\n-A INPUT -j A\nCOMMIT\n",
            "*filter\n:A - [0:0]\n-A A -j LOG\n-A A -j A\n-A INPUT -j A\nCOMMIT\n",
            "*filter\n:A - [0:0]\n-A A\n-A A -g A\n-A INPUT -j A\nCOMMIT\n",
        ],
    ),
    (
        "a chain may be called like an extension's target",
        &[
            "*filter\n:LOG - [0:0]\n-A INPUT -j LOG\n-A INPUT -g LOG\nCOMMIT\n",
            "*filter\n-D INPUT -j LOG\nCOMMIT\n",
            "*filter\n-A LOG -j LOG --log-prefix x\nCOMMIT\n",
            "*filter\n-N MARK\nCOMMIT\n",
        ],
    ),
    (
        "an interface that every packet has",
        &[
            "*filter\n-A FORWARD -i + -j ACCEPT\n-A FORWARD ! -i + -j ACCEPT\n-A FORWARD -o + -j ACCEPT\nCOMMIT\n",
            "*filter\n-D FORWARD -j ACCEPT\nCOMMIT\n",
            "*filter\n-D FORWARD -o + -j ACCEPT\nCOMMIT\n",
        ],
    ),
    (
        "addresses that every packet has",
        &[
            "*filter\n-A INPUT -s 0.0.0.0/0 -j ACCEPT\nCOMMIT\n",
            "*filter\n-A INPUT ! -s 0.0.0.0/0 -j ACCEPT\nCOMMIT\n",
            "*filter\n-A INPUT ! -d ::/0 -j ACCEPT\nCOMMIT\n",
            "*filter\n-A INPUT -s ::/0 -d ::1,2001:db8::/32 -j ACCEPT\nCOMMIT\n",
            "*filter\n-A INPUT ! -s 192.0.2.1,192.0.2.2 -j ACCEPT\nCOMMIT\n",
            "*filter\n-A INPUT -s 192.0.2.1,192.0.2.2 -d 10.0.0.0/8,10.1.0.0/16 -j ACCEPT\nCOMMIT\n",
            "*filter\n-I INPUT 2 -s 192.0.2.3,192.0.2.4 -j DROP\nCOMMIT\n",
            "*filter\n-D INPUT -s 192.0.2.3,192.0.2.4 -j DROP\nCOMMIT\n",
            "*filter\n-R INPUT 1 -s 192.0.2.3,192.0.2.4 -j DROP\nCOMMIT\n",
        ],
    ),
    (
        "a rule named by its place in the same block",
        &[
            "*filter\n:A - [0:0]\n-A A -p tcp\n-A A -p udp\nCOMMIT\n",
            "*filter\n-R A 1 -p icmp\n-D A 1\nCOMMIT\n",
            "*filter\n-R A 1 -p icmp\n-I A 1 -p esp\n-I A 2 -p ah\nCOMMIT\n",
            "*filter\n-A A -p gre\n-I A 5 -p ah\n-I A 7 -p ah\nCOMMIT\n",
            "*filter\n-A A -p gre\n-D A -p gre\n-D A 1\nCOMMIT\n",
            "*filter\n-I A -p gre\n-D A -p gre\n-C A -p gre\nCOMMIT\n",
            "*filter\n-A A -p gre\n-D A -p gre\n-I A 2 -p tcp\nCOMMIT\n",
        ],
    ),
    (
        "an insertion before a rule that the block deletes loses its place on nf_tables",
        &[
            "*raw\n:A - [0:0]\n-A A -p tcp\n-A A -p udp\n-I A 2 -p icmp\n-D A 3\nCOMMIT\n",
            "*raw\n:A - [0:0]\n-A A -p tcp\n-A A -p udp\n-I A 2 -p icmp\n-I A 2 -p gre\n-D A 2\nCOMMIT\n",
        ],
    ),
    (
        "what is said of a missing chain to zero depends on the command before on nf_tables",
        &[
            "*mangle\n:INPUT DROP [0:0]\n-Z OUTPUT\nCOMMIT\n",
            "*mangle\n:A - [0:0]\n-A A -p tcp\n-D A -p tcp\n-Z gone\nCOMMIT\n",
            "*mangle\n:A - [0:0]\n-A A -p tcp\n-C A -p tcp\n:B - [0:0]\n-Z A\n-Z gone\nCOMMIT\n",
            "*mangle\n-P INPUT DROP\nCOMMIT\n*mangle\n-Z gone\nCOMMIT\n",
            "*mangle\n-P INPUT DROP\n-F INPUT\n-Z gone\nCOMMIT\n",
            "*mangle\n:A - [0:0]\n-A A -p tcp\n-D A 1\n-Z gone\nCOMMIT\n",
        ],
    ),
    (
        "lines that hold more than they seem",
        &[
            "*filter\n:A - [0:0]\n-A A -m comment --comment \"open -j ACCEPT\n-A A -j DROP\nCOMMIT\n",
            "*filter\n:A - [0:0]\n-A A -m comment --comment a\"b -j ACCEPT\nCOMMIT\n",
            "*filter\n:A - [0:0]\n-A A -m comment --comment \"a\\\" -j ACCEPT\nCOMMIT\n",
            "*filter\n:A - [0:0]\n-A A -j ACC\0EPT\nCOMMIT\n",
            "*filter\n:A - [0:0]\n-A A -m comment --comment x\0y -j ACCEPT\nCOMMIT\n",
            "*filter\r\n:A - [0:0]\r\nCOMMIT\r\n",
            "*filter\n:A - [0:0]\n-A A -j ACCEPT\r\nCOMMIT\n",
            "*filter\n:A - [0:0]\nCOMMIT",
            "*filter\n:A - [0:0]\n-A A -j ACCEPT",
            "*filter\n:A - [0:0]\n-A A -h\n-A A -j ACCEPT\nCOMMIT\n",
        ],
    ),
    (
        "matches without their protocol",
        &[
            "*filter\n-A INPUT -m tcp --dport 80\nCOMMIT\n",
            "*filter\n-D INPUT -m tcp --dport 80\nCOMMIT\n",
            "*filter\n-A INPUT -p udp -m tcp --dport 80\nCOMMIT\n",
            "*filter\n-A INPUT ! -p tcp -m tcp --dport 80\nCOMMIT\n",
            "*filter\n-A INPUT -p tcp -m icmp --icmp-type 8\nCOMMIT\n",
            "*filter\n-A INPUT -m icmp6 --icmpv6-type 128\nCOMMIT\n",
            "*filter\n-A INPUT -p icmp -m icmp --icmp-type echo-request\nCOMMIT\n",
            "*filter\n-A INPUT -p ipv6-icmp --icmpv6-type echo-request\nCOMMIT\n",
            "*filter\n-A INPUT -j REJECT --reject-with tcp-reset\nCOMMIT\n",
            "*filter\n-A INPUT ! -p tcp -j REJECT --reject-with tcp-reset\nCOMMIT\n",
            "*filter\n-A INPUT -p tcp -j REJECT --reject-with tcp-rst\nCOMMIT\n",
        ],
    ),
    (
        "targets out of place",
        &[
            "*filter\n-A INPUT -j MASQUERADE\nCOMMIT\n",
            "*mangle\n-A INPUT -j REJECT\nCOMMIT\n",
            "*nat\n-A PREROUTING -j DROP\nCOMMIT\n",
            "*nat\n-A PREROUTING -g DROP\nCOMMIT\n",
            "*nat\n:PREROUTING DROP [0:0]\nCOMMIT\n",
            "*nat\n-P PREROUTING DROP\nCOMMIT\n",
            "*nat\n-A PREROUTING -j MASQUERADE\nCOMMIT\n",
            "*nat\n:A - [0:0]\n-A A -j MASQUERADE\n-A POSTROUTING -j A\nCOMMIT\n",
            "*nat\n-A PREROUTING -j A\n-A A -j RETURN\nCOMMIT\n",
            "*nat\n-A OUTPUT -j REDIRECT\n-A INPUT -j REDIRECT\nCOMMIT\n",
            "*filter\n-A INPUT -j TRACE\nCOMMIT\n",
            "*raw\n-A OUTPUT -j TRACE\n-A PREROUTING -j NOTRACK\nCOMMIT\n",
            "*filter\n-A INPUT -j QUEUE\nCOMMIT\n",
        ],
    ),
    (
        "every protocol is another thing than no protocol on legacy with IPv6",
        &[
            "*filter\n:z - [0:0]\n-A z -p all -j ACCEPT\n-A z -g z\nCOMMIT\n",
            "*filter\n-D z -j ACCEPT\nCOMMIT\n",
            "*filter\n-D z -p all -g z\nCOMMIT\n",
            "*filter\n:z - [0:0]\n-A z -p all -j ACCEPT\n-A z -j z\n-A INPUT -j z\nCOMMIT\n",
        ],
    ),
    (
        "a warning stands before the error of the same line",
        &[
            "*filter\n-A INPUT -p ah -p tcp\nCOMMIT\n",
            "*filter\n-A INPUT ! -p ah -i a/b -m nosuch\nCOMMIT\n",
        ],
    ),
    (
        "sets that aren't there",
        &[
            "*filter\n-A INPUT -j SET --add-set nosuch src\nCOMMIT\n",
            "*filter\n-D INPUT -m set ! --match-set nosuch src\nCOMMIT\n",
            "*filter\n-A INPUT -j SET --add-set okset src --exist\nCOMMIT\n",
            "*filter\n-A INPUT -j SET --del-set okset src\nCOMMIT\n",
            "*filter\n-D INPUT -j SET --add-set okset src --exist\nCOMMIT\n",
            "*filter\n-A INPUT -m set --match-set okset\nCOMMIT\n",
            "*filter\n-A INPUT -p tcp --tcp-flags SYN\nCOMMIT\n",
        ],
    ),
    (
        "addresses to translate to",
        &[
            "*nat\n:A - [0:0]\n-A A -j DNAT --to-destination 2001:db8::1\nCOMMIT\n",
            "*nat\n:A - [0:0]\n-A A -j DNAT --to-destination 192.0.2.1\nCOMMIT\n",
            "*nat\n:A - [0:0]\n-A A -p tcp -j DNAT --to-destination [2001:db8::1]:80\nCOMMIT\n",
            "*nat\n:A - [0:0]\n-A A -p tcp -j DNAT --to-destination 192.0.2.1:80\nCOMMIT\n",
            "*nat\n:A - [0:0]\n-A A -j DNAT --to-destination 192.0.2.1:80\nCOMMIT\n",
            "*nat\n:A - [0:0]\n-A A -j SNAT --to 192.0.2.7-192.0.2.7\nCOMMIT\n",
            "*nat\n:A - [0:0]\n-A A -j SNAT --to 300.1.1.1\nCOMMIT\n",
        ],
    ),
    (
        "text is stored as far as there is room",
        &[
            "*filter\n-A INPUT -j LOG --log-prefix ppppppppppppppppppppppppppppppp\nCOMMIT\n",
            "*filter\n-A INPUT -j NFLOG --nflog-prefix ppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp\nCOMMIT\n",
            "*filter\n-A INPUT -j NFLOG --nflog-prefix \"\"\nCOMMIT\n",
            "*filter\n-A INPUT -m comment --comment \"\"\nCOMMIT\n",
            "*filter\n-A INPUT -j LOG --log-prefix \"\"\nCOMMIT\n",
        ],
    ),
];
