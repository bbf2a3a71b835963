package simulation

import (
	"os"
	"sort"
	"testing"
	"time"
)

func TestDebug(t *testing.T) {
	seed := number(t, "SEED", 0)
	s := Draw(seed)
	t.Logf("%+v", s)
	for range 5 {
		r := run(t, &World{Settings: s})
		if len(r.Problems) == 0 {
			continue
		}
		name := r.Problems[0].Name
		if n := os.Getenv("NAME"); n != "" {
			name = n
		}
		t.Logf("%s %s %s", r.Problems[0].Check, name, r.Problems[0].Text)
		type ev struct {
			at   int64
			text string
		}
		var list []ev
		for _, o := range r.Ops {
			if o.Name == name || o.Name == "" {
				list = append(list, ev{o.Call, o.String()})
			}
		}
		for _, w := range r.Windows {
			list = append(list, ev{w.From, "WINDOW all until " + time.Duration(w.To).String()})
		}
		for c, l := range r.Local {
			for _, w := range l {
				list = append(list, ev{w.From, "WINDOW " + string(rune('0'+c)) + " until " + time.Duration(w.To).String()})
			}
		}
		sort.Slice(list, func(i, j int) bool { return list[i].at < list[j].at })
		for _, e := range list {
			t.Log(time.Duration(e.at), e.text)
		}
		return
	}
}
