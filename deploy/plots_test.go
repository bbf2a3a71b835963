package deploy

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

var plots = flag.String("plots", "", "write the pictures of docs/operating.md into this directory, which takes a minute")

// pictures are panels of the dashboard, by the file that shows them.
var pictures = map[string]string{
	"acquisitions.svg": "Calls that ended, by outcome",
	"waiting.svg":      "Waiting for a grant",
	"age.svg":          "Age of the oldest",
	"slack.svg":        "Lease left at renewals",
}

// TestPlots draws what the dashboard shows of a service whose Redis stands still for a while, and one of
// whose locks is deleted. Without -plots it looks only whether the panels are there, as it is not
// the test of anything that the run of the dashboard does not test.
func TestPlots(t *testing.T) {
	panels := map[string]panel{}
	for _, p := range readDashboard(t).Panels {
		panels[p.Title] = p
	}
	for file, title := range pictures {
		require.NotEmpty(t, panels[title].Targets, title)
		_, err := os.Stat("../docs/operating/" + file)
		require.NoError(t, err)
	}
	if *plots == "" {
		return
	}
	r, from, to := minute(t)
	engine := newEngine(t)
	for file, title := range pictures {
		var lines []string
		for _, target := range panels[title].Targets {
			text := strings.ReplaceAll(asGrafana(target.Expr), "[2m]", "[5s]") // a scrape a second, in place of one in 15
			name := strings.NewReplacer("{{kind}}", "", "{{class}}", "", "{{outcome}}", "").Replace(target.Legend)
			lines = append(lines, `label_replace(`+text+`, "line", "`+strings.TrimSpace(name)+`", "", "")`)
		}
		q, err := engine.NewRangeQuery(context.Background(), r.memory, nil, strings.Join(lines, " or "), from, to, time.Second)
		require.NoError(t, err)
		result := q.Exec(context.Background())
		require.NoError(t, result.Err)
		matrix, err := result.Matrix()
		require.NoError(t, err)
		matrix = slices.DeleteFunc(matrix, func(s promql.Series) bool { // kinds that the service does not use
			return !slices.ContainsFunc(s.Floats, func(p promql.FPoint) bool { return p.F > 0 })
		})
		require.NotEmpty(t, matrix, title)
		require.NoError(t, os.WriteFile(filepath.Join(*plots, file), []byte(draw(title, matrix)), 0o600))
		q.Close()
	}
}

// minute is a minute of a service with ten goroutines and three names of locks, and a report that takes
// all the time. Redis stands still for three seconds from the 20th on; the report's lock is deleted
// at 45.
func minute(t *testing.T) (r *run, from, to time.Time) {
	t.Helper()
	r = &run{memory: newMemory()}
	server := redistest.Start(t)
	observer := r.observe(t)
	clients := []*holdfast.Client{client(t, server, observer), client(t, server, observer)}
	ctx, stop := context.WithCancel(context.Background())
	report, err := rlock.New(clients[0], "report:1").Lock(ctx)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			for n := i; ctx.Err() == nil; n++ {
				l := rlock.New(clients[i%2], "orders:"+string(rune('a'+n%3)))
				if h, err := l.Lock(ctx, holdfast.Wait(100*time.Millisecond)); err == nil {
					<-time.After(10 * time.Millisecond)
					_ = h.Unlock(context.Background())
				}
			}
		})
	}
	second := time.NewTicker(time.Second)
	defer second.Stop()
	from = time.Now()
	for n := range 60 {
		switch n {
		case 20:
			server.Pause()
			time.AfterFunc(3*time.Second, server.Resume)
		case 45:
			server.Command(t, "DEL", "report:1")
		}
		to = <-second.C
		r.scrapeAt(t, to)
	}
	stop()
	wg.Wait()
	_ = report.Unlock(context.Background())
	return r, from, to
}
