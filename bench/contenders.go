package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-redsync/redsync/v4"
)

// group says what a contender is compared as.
type group string

const (
	own     group = "Holdfast"
	floor   group = "floor"   // the least that a lock on Redis can do
	peer    group = "peer"    // another lock on Redis
	another group = "another" // a lock on something else
)

// need is a program or two that not every machine has.
type need string

const (
	needNothing  need = ""
	needJava     need = "java"
	needPostgres need = "postgres"
	needEtcd     need = "etcd"
	needMasters  need = "masters" // several Redis servers that know nothing of each other
)

// kind is what a contender is, so that the alike are compared.
type kind string

const (
	aLock      kind = ""
	aReadWrite kind = "readers and a writer"
	aSemaphore kind = "permits"
	aLatch     kind = "latch"
	anElection kind = "election"
	aFleet     kind = "fleet"
)

// contender is one way to lock a name. It is used as its documentation advises; what was chosen
// stands beside it.
type contender struct {
	name  string
	group group
	// open makes one client of it in a worker. nil: it is no Go, and the workers are another
	// program.
	open func(j job) (client, error)
	// needs is what must be there beside Redis. Who needs masters takes part in the scenarios of a
	// quorum, and in no others.
	needs need
	// kind is whose scenarios it takes part in.
	kind kind
	// only are the scenarios that it takes part in; empty: all.
	only []string
	// sides of a fleet are the contenders of which it is made, half and half. What is measured is
	// how the first one fares.
	sides [2]string
}

// client is one client in one worker: what a service would have one of.
type client interface {
	// locker is what one goroutine locks a name with. It is called once for each goroutine and
	// name.
	locker(ctx context.Context, name string) (locker, error)
	// close gives back what the client holds; goroutines of this process that it leaves are its own
	// affair.
	close() error
}

// readable is a client of a lock that several may hold to read.
type readable interface {
	// reader is locker, for who only reads.
	reader(ctx context.Context, name string) (locker, error)
}

// locker waits for a lock. token is 0 where the lock has none. unlock is called by the same
// goroutine.
type locker func(ctx context.Context) (unlock func() error, token uint64, err error)

// contenders are all of them, in the order in which tables show them.
var contenders = []contender{
	{name: "rlock", group: own, open: openHoldfast(rlockKind)},
	{name: "rlock-keep", group: own, open: openHoldfast(keepKind), only: []string{"single", "names", "clients", "keep2"}},
	{name: "rlock-background", group: own, open: openBackground, only: []string{"single"}},
	{name: "rlock-observed", group: own, open: openObserved, only: []string{"single", "local"}},
	{name: "rlock-nohandoff", group: own, open: openHoldfast(noHandoffKind)},
	{name: "fairlock", group: own, open: openHoldfast(fairlockKind)},
	{name: "redsync", group: peer, open: openRedsync},
	{name: "redislock", group: peer, open: openRedislock},
	{name: "rueidislock", group: peer, open: openRueidislock},
	{name: "redisson", group: peer, needs: needJava},
	{name: "redisson-fair", group: peer, needs: needJava},
	{name: "floor", group: floor, open: openFloor},
	{name: "etcd", group: another, open: openEtcd, needs: needEtcd},
	{name: "pg-advisory", group: another, open: openPostgres, needs: needPostgres},
	{name: "redlock", group: own, open: openRedlock, needs: needMasters},
	{name: "redsync-5", group: peer, open: openRedsyncQuorum(), needs: needMasters},
	{name: "redsync-5-failfast", group: peer, open: openRedsyncQuorum(redsync.WithFailFast(true)), needs: needMasters},
	{name: "redsync-5-1ms", group: peer, open: openRedsyncQuorum(redsync.WithRetryDelay(pollEvery)),
		needs: needMasters},
	{name: "rueidislock-5-keys", group: peer, open: openRueidislockKeys, needs: needMasters},
	{name: "floor-5", group: floor, open: openFloorQuorum, needs: needMasters},
	{name: "rwlock", group: own, kind: aReadWrite, open: openReadWrite},
	{name: "redisson-rw", group: peer, kind: aReadWrite, needs: needJava},
	{name: "floor-rw", group: floor, kind: aReadWrite, open: openFloorReadWrite, only: []string{"writer"}},
	{name: "semaphore", group: own, kind: aSemaphore, open: openSemaphore},
	{name: "redisson-permits", group: peer, kind: aSemaphore, needs: needJava},
	{name: "floor-permits", group: floor, kind: aSemaphore, open: openFloorPermits},
	{name: "latch", group: own, kind: aLatch, open: openLatch},
	{name: "redisson-latch", group: peer, kind: aLatch, needs: needJava},
	{name: "floor-latch", group: floor, kind: aLatch, open: openFloorLatch},
	{name: "election", group: own, kind: anElection, open: openHoldfast(electionKind)},
	{name: "floor-election", group: floor, kind: anElection, open: openFloorElection, only: []string{"resign", "resign-far5"}},
	{name: "fleet-redisson", group: peer, kind: aFleet, needs: needJava, sides: [2]string{"redisson", "redisson"}},
	{name: "fleet-rlock", group: own, kind: aFleet, needs: needJava, sides: [2]string{"redisson", "rlock"}},
	{name: "fleet-redisson-fair", group: peer, kind: aFleet, needs: needJava, sides: [2]string{"redisson-fair", "redisson-fair"}},
	{name: "fleet-fairlock", group: own, kind: aFleet, needs: needJava, sides: [2]string{"redisson-fair", "fairlock"}},
}

// contenderNamed finds a contender. A name that came from a flag has been checked before.
func contenderNamed(name string) (contender, bool) {
	i := slices.IndexFunc(contenders, func(c contender) bool { return c.name == name })
	if i < 0 {
		return contender{}, false
	}
	return contenders[i], true
}

// choose picks what a flag names, a list with commas; empty: all.
func choose[T any](flag, list string, all []T, name func(T) string) ([]T, error) {
	if list == "" {
		return all, nil
	}
	wanted := strings.Split(list, ",")
	var chosen []T
	for _, x := range all {
		if i := slices.Index(wanted, name(x)); i >= 0 {
			chosen = append(chosen, x)
			wanted = slices.Delete(wanted, i, i+1)
		}
	}
	if len(wanted) > 0 {
		return nil, fmt.Errorf("-%s: there is no %q; -list shows what there is", flag, wanted[0])
	}
	return chosen, nil
}

// rotated is the order of round i (from 0): each goes first equally often, so that none always
// follows the same one.
func rotated[T any](all []T, round int) []T {
	if len(all) == 0 {
		return nil
	}
	k := round % len(all)
	return append(slices.Clone(all[k:]), all[:k]...)
}
