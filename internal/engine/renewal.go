package engine

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/watchdog"
)

var _ Renewer = (*Client)(nil)

// Renew is the watchdog's access to the server: one pipeline for all that are due, and few scripts
// in it. What got no answer keeps the verdict [watchdog.Unknown].
func (c *Client) Renew(ctx context.Context, batch []watchdog.Renewal) {
	calls := make([]lua.Call, len(batch))
	for i, r := range batch {
		f := r.Owner.(*ServerLease).Entry.(*serverEntry)
		f.unanswered.Add(1)
		calls[i] = f.renewal(r.Length)
	}
	run := lua.RunAll
	if _, one := c.rdb.(*redis.Client); one {
		// (Not in a cluster: a script's keys share a slot, and there are so many slots that those
		// of names are rarely the same.)
		run = lua.RenewAll
	}
	silent, start := false, c.session.Begin()
	results := run(ctx, c.rdb, calls)
	c.session.ReportAll(start, calls, results)
	c.session.NotePanic(results[0].Err)
	for i, result := range results {
		t := batch[i].Owner.(*ServerLease)
		f := t.Entry.(*serverEntry)
		if result.Err == nil || errs.IsReply(result.Err) {
			f.unanswered.Add(-1)
		}
		switch {
		case result.Err == nil && result.Reply.Status == lua.Done:
			batch[i].Verdict = watchdog.Renewed
			if t.RenewalError.Load() != nil {
				t.RenewalError.Store(nil)
			}
		case result.Err == nil && f.MayBeReleased():
			// It was given up, perhaps, which is no loss.
		case result.Err == nil, lua.IsError(result.Err, "WRONGTYPE"):
			batch[i].Verdict = watchdog.Gone // somebody else's hash, none, or no hash at all
		case errs.IsReply(result.Err):
			refusal := t.base.explain(result.Err)
			t.RenewalError.Store(&refusal)
			batch[i].Err = refusal
		default:
			batch[i].Err = result.Err
			silent = true
		}
	}
	if cluster := c.server.Cluster; silent && cluster != nil {
		cluster.ReloadState(ctx)
	}
}

// Lane is what keeps renewals apart for the watchdog, nil where one server has all locks.
func (c *Client) Lane() func(watchdog.Owner) any {
	if c.server.Cluster == nil {
		return nil
	}
	return func(o watchdog.Owner) any { return c.server.MasterOf(nameOf(o)) }
}
