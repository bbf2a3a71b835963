package main

import (
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// demoMasters is how many masters grant the redlock: two may fail.
const demoMasters = 5

// quorumLease is longer than demoLease. The client reports the loss of a redlock a hundredth of the
// lease before its end, and a busy machine must not delay the process for longer than that.
func quorumLease() time.Duration { return pace() * 2 * time.Second }

// master is one of several servers that know nothing of each other.
type master struct {
	*server
	rdb redis.UniversalClient
}

// quorum starts the masters, and two workers more.
func (d *demoRun) quorum() {
	d.startMasters()
	d.onMasters()
}

// startMasters starts the masters. If one does not start, it is an emulation, and so are those
// after it.
func (d *demoRun) startMasters() {
	why := ""
	for range demoMasters {
		if d.emulated {
			why = "as the first one"
		}
		srv := must(startServer(d.ctx, why))
		rdb, err := srv.address.open(nil)
		if err != nil {
			srv.stop()
			noError(err)
		}
		d.masters, d.emulated = append(d.masters, &master{srv, rdb}), srv.emulated
	}
}

// onMasters makes D and E compete for the redlock.
//
// At first E locks once. The masters are younger than a lease. Unless all of them have granted the
// lock together to a process, it may have to wait until they are older, after the failure of
// others.
func (d *demoRun) onMasters() {
	start := Request{Op: "start", Name: d.start.Name + ":quorum", Lease: quorumLease()}
	var about []string
	for _, m := range d.masters {
		start.Redis, start.Emulated = append(start.Redis, m.address.reveal()), start.Emulated || m.emulated
		about = append(about, m.about)
	}
	d.note("  each is %s", strings.Join(slices.Compact(about), ", or "))
	workerD, workerE := d.worker("D", start), d.worker("E", start)
	d.note("  workers D and E are the processes %d and %d", workerD.pid(), workerE.pid())
	d.note("  leases of %s, renewed every %s", brief(quorumLease()), brief(quorumLease()/3))
	d.do(workerE, lock(quorum))
	d.do(workerE, unlock(quorum))

	grant := d.do(workerD, lock(quorum))
	all := len(d.masters)
	d.until("all masters grant the lock", func() bool { return d.agreeing(d.masters, start.Name, grant) == all })
	d.check("D locks", grant.Refusal == "", "%d of %d masters say so", all, all)
	try := d.do(workerE, lockOnce(quorum))
	d.check("E tries, without waiting", try.Refusal == notAcquired, "%s", try.outcome())
	d.mastersFail(workerD, workerE, start.Name, grant)
}

// mastersFail kills two masters while D holds the lock and E waits: D keeps it, and E gets it from
// D. Then it kills a third one.
func (d *demoRun) mastersFail(workerD, workerE *workerProcess, name string, first Reply) {
	waiting := workerE.send(lock(quorum))
	d.masters[0].stop()
	d.masters[1].stop()
	alive, killed := d.masters[2:], time.Now()
	var hold Reply
	d.until("D's hold is renewed", func() bool {
		hold = d.do(workerD, Request{Op: "look", Lock: quorum})
		// D relies on its hold for that long only if a renewal after the kill was confirmed.
		return hold.Refusal != "" || hold.Trusted.After(killed.Add(quorumLease()*99/100))
	})
	n := d.agreeing(alive, name, first)
	d.check("two are killed: D's hold is renewed", hold.Refusal == "" && n == len(alive),
		"by %d of %d, after %s", n, len(d.masters), brief(hold.Began.Sub(killed)))

	release := d.do(workerD, unlock(quorum))
	second := d.wait(waiting)
	n = d.agreeing(alive, name, second)
	d.check("D unlocks, and E gets it", release.Refusal == "" && second.Refusal == "" && second.Token > first.Token &&
		n == len(alive), "by %d of %d, after %s", n, len(d.masters), brief(second.Ended.Sub(release.Began)))

	lost := workerE.send(Request{Op: "loss", Lock: quorum})
	// The first renewal comes much later than the kill, so this is the last lease that the third
	// master grants.
	now := time.Now()
	end := now.Add(must(alive[0].rdb.PTTL(d.ctx, name).Result()))
	alive[0].stop()
	loss := d.wait(lost)
	// When E learned of it depends on how busy the machine is, too.
	d.check("a third one is killed: E is told in time", loss.Refusal == lockLost && loss.Token == second.Token &&
		!loss.Trusted.IsZero() && loss.Trusted.Before(end), "%s before its lease ends", brief(end.Sub(loss.Trusted)))
}

// agreeing is how many of some masters say that the owner holds the lock.
func (d *demoRun) agreeing(masters []*master, name string, grant Reply) (n int) {
	for _, m := range masters {
		if must(m.rdb.HExists(d.ctx, name, grant.Owner).Result()) {
			n++
		}
	}
	return n
}

// end lets the workers end by themselves, and deletes the keys.
func (d *demoRun) end() {
	well, ends := true, true
	for _, w := range d.workers {
		well = well && (w.killed || w.dismiss(d.ctx))
	}
	for _, key := range d.keys() {
		ends = ends && must(d.rdb.PTTL(d.ctx, key).Result()) != -1
	}
	d.check("the workers end by themselves", well && ends, "each key has a time to live")
	must(d.rdb.Del(d.ctx, d.keys()...).Result())
	left := must(d.rdb.Exists(d.ctx, d.keys()...).Result())
	d.check("the demo deletes its keys", left == 0, "%d left", left)
}
