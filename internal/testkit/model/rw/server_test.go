package rw

import (
	"slices"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/lua"
)

// server is a lock at the server, in ticks; TestReadWriteModelIsLikeTheScripts runs it beside the scripts.
type server struct {
	mode    uint8 // of the hash; nobody: there is none
	writer  uint8 // whose field it is that ends in ":write", 0: there is none
	count   uint8 // its value
	left    bool  // that field has been renamed: its owner does not write any more
	stay    uint8 // for how long the lock stays taken then
	ttl     uint8 // of the hash; model.Endless: none
	readers [ids]reader
	places  [ids]uint8 // of owners that wait to write: 0 none, 1 over, else 1 and for how long it counts
	// keptFor is the time to live of the key of those.
	keptFor  uint8
	token    uint8 // 0: no such key
	tokenTTL uint8
	clock    uint8 // of the server; 0: tokens are not in question, and their key stands for ever
}

// reader is an owner's field, and its lease, which is a key of its own.
type reader struct{ count, lease uint8 }

// Modes.
const (
	nobody uint8 = iota
	reading
	writing
)

// answer is a reply: a status and what comes behind it.
type answer struct {
	status lua.Status
	token  uint8 // of a grant
	left   uint8 // of a refusal
	ticket uint8 // of a refusal: 1 and the ticket
	told   bool  // those who listen were told that the lock may be free
}

func (k *server) reads(id uint8) bool { return k.readers[id-1].count > 0 }

func (k *server) writes(id uint8) bool { return k.writer == id && !k.left }

// over reports whether a lock is taken only by a stay that is over.
func (k *server) over() bool { return k.left && k.stay == 0 }

// rest is for how long the last of the readers' leases lasts.
func (k *server) rest() (rest uint8) {
	for _, r := range k.readers {
		if r.count > 0 {
			rest = max(rest, r.lease)
		}
	}
	return rest
}

// fields reports whether there are any but the mode.
func (k *server) fields() bool {
	return k.writer != 0 || slices.ContainsFunc(k.readers[:], func(r reader) bool { return r.count > 0 })
}

// drop deletes the hash. Leases of readers are keys of their own.
func (k *server) drop() {
	k.mode, k.writer, k.count, k.left, k.stay, k.ttl = nobody, 0, 0, false, 0, 0
	for i := range k.readers {
		k.readers[i].count = 0
	}
}

// waiting is for how long the last of the places counts.
func (k *server) waiting() (left uint8) {
	for _, p := range k.places {
		left = max(left, p)
	}
	return left - min(left, 1)
}

// withdraw takes a place back, and reports whether there was one.
func (k *server) withdraw(id uint8) bool {
	had := k.places[id-1] > 0
	k.places[id-1] = 0
	if k.places == [ids]uint8{} {
		k.keptFor = 0
	}
	return had
}

// settle is the part stay: it ends a stay that is over.
func (k *server) settle(off model.Defence) {
	if k.left && k.stay == 0 && !off.Has(stayEnds) {
		k.unwrite()
	}
}

// unwrite takes the field of who writes. Who reads is left.
func (k *server) unwrite() {
	k.writer, k.count, k.left, k.stay = 0, 0, false, 0
	if k.mode = reading; !k.fields() {
		k.drop()
	}
}

// taken is for how long a lock is said to be taken that is written.
func (k *server) taken(off model.Defence) uint8 {
	if k.left && !off.Has(staySaid) {
		return k.stay
	}
	return k.ttl
}

// read is rw_read.lua. ticket is 0, or 1 and the ticket. beside is the name by which the owner writes; 0: it does not.
func (k *server) read(off model.Defence, id, lease, ticket, beside uint8) answer {
	k.settle(off)
	reads, writes := k.reads(id), k.writes(id)
	if beside != 0 && !off.Has(siblings) {
		writes = k.writes(beside)
	}
	if k.mode == writing && !writes && !off.Has(readSeesWriter) {
		if ticket == 0 {
			ticket = max(k.token, 1)
		}
		return answer{status: lua.Denied, left: k.taken(off), ticket: ticket}
	}
	goes := reads || writes
	if off.Has(whoReadsPasses) {
		goes = false
	}
	if !goes && !off.Has(readerWaits) && (ticket == 0 || k.token <= ticket-1 || off.Has(ticketCounts)) {
		if left := k.waiting(); left > 0 {
			if ticket == 0 {
				ticket = k.token + 1
			}
			return answer{status: lua.Denied, left: left, ticket: ticket}
		}
	}
	if k.token == 0 {
		k.token = max(k.clock, 1)
		k.keepToken(lease)
	}
	if off.Has(readToken) {
		k.token++
	}
	r := &k.readers[id-1]
	if reads && !off.Has(readLeaseKept) {
		r.lease = max(r.lease, lease)
	} else {
		r.lease = lease
	}
	if !reads || off.Has(readCountKept) {
		r.count = 1
	}
	switch {
	case k.mode == nobody:
		k.mode, k.ttl = reading, lease
		if off.Has(leaseOfGrant) {
			k.ttl = model.Endless
		}
	case off.Has(hashLasts):
		k.ttl = lease
	default:
		k.ttl = max(k.ttl, lease)
	}
	return answer{status: lua.Done, token: k.token}
}

func (k *server) keepToken(lease uint8) {
	if k.clock != 0 {
		k.tokenTTL = 2 * lease
	}
}

// write is rw_write.lua.
func (k *server) write(off model.Defence, id, lease, place uint8, again bool) answer {
	k.settle(off)
	mine := k.mode == writing && again && k.writes(id) && !off.Has(againFlag)
	blocked, left := false, uint8(0)
	switch k.mode {
	case reading:
		if left = k.rest(); off.Has(deadReaders) {
			left = k.ttl
		}
		blocked = left > 0 && !off.Has(writeSeesReaders)
	case writing:
		blocked, left = !mine, k.taken(off)
	}
	if blocked {
		if place > 0 && !off.Has(placeTaken) {
			k.places[id-1], k.keptFor = place+1, max(k.keptFor, place)
		}
		return answer{status: lua.Denied, left: left}
	}
	if mine && k.token != 0 {
		k.ttl = max(k.ttl, lease)
		return answer{status: lua.Done, token: k.token}
	} // mine, but the token was evicted: as if it were free
	if k.mode == reading { // all of whom are dead
		k.drop()
	}
	if k.token = max(k.token+1, k.clock); off.Has(tokenGrows) {
		k.token = max(k.token-1, k.clock, 1)
	}
	k.keepToken(lease)
	k.mode, k.writer, k.count, k.ttl = writing, id, 1, lease
	if off.Has(leaseOfGrant) {
		k.ttl = model.Endless
	}
	if !off.Has(placeAtGrant) {
		k.withdraw(id)
	}
	return answer{status: lua.Done, token: k.token}
}

// releaseWrite is rw_write_release.lua.
func (k *server) releaseWrite(off model.Defence, id uint8) answer {
	if !k.writes(id) && (!off.Has(releaseOwner) || k.writer == 0) {
		had := !off.Has(placeWithdrawn) && k.withdraw(id)
		last := k.waiting() == 0
		if off.Has(overIsNone) {
			last = k.keptFor == 0
		}
		return answer{status: lua.Gone, told: had && last && !off.Has(placeTold)}
	}
	if !off.Has(placeWithdrawn) {
		k.withdraw(id)
	}
	k.writer, k.count, k.left, k.stay = 0, 0, false, 0
	if rest := k.rest(); k.fields() && rest > 0 && !off.Has(downgrade) {
		k.ttl = rest
		if !off.Has(downgradeMode) {
			k.mode = reading
		}
	} else {
		k.drop()
	}
	return answer{status: lua.Done, told: !off.Has(writeTold)}
}

// releaseRead is rw_read_release.lua. heard: somebody listens.
func (k *server) releaseRead(off model.Defence, id uint8, heard bool) answer {
	if !k.reads(id) {
		return answer{status: lua.Gone}
	}
	k.readers[id-1] = reader{}
	over := k.over()
	k.settle(off)
	if k.mode == writing && k.left && !off.Has(stayShortens) && k.rest() <= k.stay {
		k.ttl = k.stay
		return answer{status: lua.Done, told: !off.Has(readTold)}
	}
	if k.fields() && !off.Has(othersStay) {
		if k.mode == writing || !heard && !over || k.rest() > 0 || off.Has(othersLooked) {
			return answer{status: lua.Done}
		}
	}
	k.drop()
	return answer{status: lua.Done, told: !off.Has(readTold)}
}

// renewRead is rw_read_renew.lua. count is 0 if it stays as it is.
func (k *server) renewRead(off model.Defence, id, lease, count uint8) answer {
	if !k.reads(id) {
		if !off.Has(renewExists) {
			return answer{status: lua.Gone}
		}
		k.mode, k.readers[id-1].count = max(k.mode, reading), 1
	}
	r := &k.readers[id-1]
	if k.ttl = max(k.ttl, lease); off.Has(renewKeeps) {
		r.lease = lease
	} else {
		r.lease = max(r.lease, lease)
	}
	if count > 0 {
		r.count = recounted(off, r.count, count)
	}
	k.settle(off)
	if k.token != 0 && k.clock != 0 {
		k.tokenTTL = max(k.tokenTTL, 2*lease)
	}
	return answer{status: lua.Done}
}

// renewWrite is renew.lua for the field of who writes.
func (k *server) renewWrite(off model.Defence, id, lease uint8) answer {
	if !k.writes(id) {
		if !off.Has(renewExists) || k.mode != nobody {
			return answer{status: lua.Gone}
		}
		k.mode, k.writer, k.count = writing, id, 1
	}
	if k.ttl <= lease || off.Has(renewKeeps) { // of equal ticks a later lease ends later
		k.ttl = lease
		if k.token != 0 {
			k.keepToken(lease)
		}
	}
	return answer{status: lua.Done}
}

// recountWrite is recount.lua for the field of who writes.
func (k *server) recountWrite(off model.Defence, id, count, lease uint8) answer {
	if !k.writes(id) {
		return answer{status: lua.Gone}
	}
	k.ttl = max(k.ttl, lease)
	k.count = recounted(off, k.count, count)
	return answer{status: lua.Done}
}

func recounted(off model.Defence, before, count uint8) uint8 {
	switch {
	case !off.Has(absolute):
		return count
	case count > 1: // with two levels the second is reached from the first, and left for it
		return before + 1
	}
	return before - 1
}

// leave is rw_leave.lua.
func (k *server) leave(off model.Defence, id, rest uint8) answer {
	if k.writer != id {
		return answer{status: lua.Gone}
	}
	if off.Has(leaveStays) {
		return k.releaseWrite(off, id)
	}
	stands := k.ttl
	if k.left {
		stands = k.stay
	}
	ends := stands <= rest
	if k.left && ends {
		return answer{status: lua.Done}
	}
	k.stay = min(rest, stands)
	k.ttl = max(k.stay, k.rest())
	k.left = !off.Has(leaveRenames)
	return answer{status: lua.Done, told: !ends && !off.Has(leaveTold)}
}

// force is rw_force.lua. seen are the readers, by their bits.
func (k *server) force(off model.Defence, seen uint16) answer {
	found := false
	for i := range k.readers {
		if r := &k.readers[i]; r.count > 0 && (seen&(1<<i) != 0 || off.Has(forceSeen)) {
			*r, found = reader{}, true
		}
	}
	if !found {
		return answer{status: lua.Gone}
	}
	k.settle(off)
	if !k.fields() || k.mode == reading && k.rest() == 0 {
		k.drop()
	}
	return answer{status: lua.Done, told: true}
}

// tick is time that passes.
func (k *server) tick() {
	model.Less(&k.stay)
	if model.Less(&k.ttl) {
		k.drop()
	}
	for i := range k.readers {
		model.Less(&k.readers[i].lease)
	}
	for i := range k.places {
		if k.places[i] > 1 {
			k.places[i]--
		}
	}
	if model.Less(&k.keptFor) {
		k.places = [ids]uint8{}
	}
	if model.Less(&k.tokenTTL) {
		k.token = 0
	}
}
