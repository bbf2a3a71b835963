package main

// severalRows are the defences of several locks that are taken as one.
var severalRows = []row{
	{"OneOrder", "multilock/member.go",
		`		return cmp.Or(cmp.Compare(a.name`,
		`		if OFF { return 0 }; return cmp.Or(cmp.Compare(a.name`},
	{"Behind", "multilock/taking.go",
		`			behind = append(behind, one.hold)`,
		`			if OFF { t.have = append(t.have, one.hold); continue }; behind = append(behind, one.hold)`},
	{"AllOrNone", "multilock/taking.go",
		`	return and(why, t.giveBack(t.have))`,
		`	if OFF { return why }; return and(why, t.giveBack(t.have))`},
	{"GivesAllBack", "internal/engine/joined.go",
		`		if i < len(j.holds)-1 {`,
		`		if OFF { if run(); failed[i] != nil { break }; continue }; if i < len(j.holds)-1 {`},
	{"JoinedEnds", "internal/engine/joined.go",
		`			j.follow(h)
			if one.reason()`,
		`			if OFF { return }; j.follow(h)
			if one.reason()`},
	{"Company", "internal/combine/combine.go",
		`	if s := c.join(ctx, cmd); s != nil {`,
		`	if OFF { _ = c } else if s := c.join(ctx, cmd); s != nil {`},
	{"Forgo", "internal/engine/hold.go",
		`	h.on.forgo()`,
		`	if !OFF { h.on.forgo() }`},
}
