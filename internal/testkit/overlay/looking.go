package main

// lookingRows are the defences of who looks at long waits, and of what looking costs a server.
var lookingRows = []row{
	{"ToldOnce", "internal/engine/blocked.go",
		`	if h.told {`,
		`	if h.told && !OFF {`},
	{"OwnNumber", "internal/engine/lookout.go",
		`some[len(under) > 0] > mostLooked {`,
		`some[len(under) > 0] > mostLooked || OFF && some[true]+some[false] > mostLooked {`},
	{"SeenTwice", "internal/deadlock/circle.go",
		`		if later && !s.told {`,
		`		if (later || OFF) && !s.told {`},
	{"Share", "cmd/holdfast/internal/live/budget.go",
		`		if d <= 0 {`,
		`		if d <= 0 || OFF {`},
}
