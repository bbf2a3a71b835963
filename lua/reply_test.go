package lua

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// decoders are all methods that decode a reply. Each is called with a reply, and returns what it makes of it.
var decoders = map[string]func(Reply) any{
	"unannounced":   func(r Reply) any { return r.Unannounced() },
	"late":          func(r Reply) any { return r.LateTime() },
	"grant":         func(r Reply) any { return r.Grant() },
	"refusal":       func(r Reply) any { return told(r.Refusal()) },
	"queue refusal": func(r Reply) any { return told(r.QueueRefusal()) },
	"rw refusal":    func(r Reply) any { return told(r.RwRefusal()) },
	"pass":          func(r Reply) any { return r.Pass() },
	"state":         func(r Reply) any { return r.State() },
	"taken":         func(r Reply) any { return r.Taken() },
	"force":         func(r Reply) any { return r.Force() },
	"fence":         func(r Reply) any { return r.Fence() },
	"poll":          func(r Reply) any { return r.Poll() },
	"sem_state":     func(r Reply) any { return r.SemState() },
	"rw_state":      func(r Reply) any { return r.RwState() },
	"vote":          func(r Reply) any { return r.Vote() },
	"leader":        func(r Reply) any { return r.Leader() },
	"latch":         func(r Reply) any { return r.Latch() },
	"latch_look":    func(r Reply) any { return r.LatchLook() },
}

// refusal is a Refusal with the fields of the hash.
type refusal struct {
	Refusal
	list []string
}

func told(f Refusal) refusal {
	list := f.Fields()
	f.fields = nil
	return refusal{f, list}
}

func refused(f Refusal, list ...string) refusal { return refusal{f, list} }

// num is a number as go-redis has it.
func num(n int64) any { return n }

// TestDecoders: each reply that the header of a script names is decoded to the fields that say the same.
func TestDecoders(t *testing.T) {
	for _, c := range []struct {
		decoder string
		reply   Reply
		want    any
	}{
		{"unannounced", NewReply(Done), ""},
		{"unannounced", NewReply(Done, "NOPERM"), "NOPERM"},
		{"late", NewReply(Late, "123"), "123"},

		{"grant", NewReply(Done, "7"), Grant{Token: "7", Time: "7"}},
		{"grant", NewReply(Done, "7", "9"), Grant{Token: "7", Last: "9", Time: "7"}},
		{"grant", NewReply(Done, "7", "7", "5"), Grant{Token: "7", Last: "7", Time: "5"}},

		{"refusal", NewReply(Denied, num(50), "a"), refused(Refusal{Millis: 50}, "a")},
		{"refusal", NewReply(Denied, num(-1), "a", "mode"), refused(Refusal{Millis: -1}, "a", "mode")},
		{"refusal", NewReply(Denied, num(50)), refused(Refusal{Millis: 50})},
		{"refusal", NewReply(Denied, num(50), num(5)), refused(Refusal{Millis: 50, Many: 5})},
		{"refusal", NewReply(Denied, num(50), num(-1)), refused(Refusal{Millis: 50, String: true})},
		{"queue refusal", NewReply(Denied, num(50), "123", num(1), "a"),
			refused(Refusal{Millis: 50, Time: "123", Foreign: true}, "a")},
		{"queue refusal", NewReply(Denied, num(50), "123", num(0)), refused(Refusal{Millis: 50, Time: "123"})},
		{"queue refusal", NewReply(Denied, num(50), "123", num(0), num(5)),
			refused(Refusal{Millis: 50, Time: "123", Many: 5})},
		{"queue refusal", NewReply(Denied, num(50), "123", num(0), num(-3), num(5), num(-1), num(2), "a"),
			refused(Refusal{Millis: 50, Time: "123", Permits: Permits{All: 5, Free: -1, Waiters: 2}}, "a")},
		{"queue refusal", NewReply(Denied, num(50), "123", num(0), num(-3), num(5), num(0), num(0)),
			refused(Refusal{Millis: 50, Time: "123", Permits: Permits{All: 5}})},
		{"rw refusal", NewReply(Denied, num(50), "9", "a"), refused(Refusal{Millis: 50, Ticket: "9"}, "a")},
		{"rw refusal", NewReply(Denied, num(50), "9", num(-2), "a"),
			refused(Refusal{Millis: 50, Ticket: "9", Waits: true, Writer: "a"})},
		{"rw refusal", NewReply(Denied, num(50), "", num(5)), refused(Refusal{Millis: 50, Many: 5})},

		{"pass", NewReply(Done, "7", "9"), PassReply{First: "7", Last: "9"}},
		{"pass", NewReply(Denied, num(-1)), PassReply{Listeners: -1}},
		{"pass", NewReply(Denied, num(2), "", num(30)), PassReply{Listeners: 2, HeadStart: 30}},
		{"pass", NewReply(Denied, num(2), "NOPERM"), PassReply{Listeners: 2, Unannounced: "NOPERM"}},
		{"pass", NewReply(Gone), PassReply{}},

		{"state", NewReply(Done, "a", "2", num(50), "7"), StateReply{Owner: "a", Count: 2, Millis: 50, Token: 7}},
		{"state", NewReply(Done, "a", "x", num(-1), "0", num(3)), StateReply{Owner: "a", Millis: -1, Waiters: 3}},
		{"state", NewReply(Denied, "7"), StateReply{Token: 7}},
		{"state", NewReply(Denied, "7", num(3)), StateReply{Token: 7, Waiters: 3}},

		{"taken", NewReply(Done, "7", num(0)), TakenReply{Token: "7"}},
		{"taken", NewReply(Done, "0", num(1)), TakenReply{Token: "0", Others: true}},

		{"force", NewReply(Done), ForceReply{}},
		{"force", NewReply(Done, "NOPERM"), ForceReply{Unannounced: "NOPERM"}},
		{"force", NewReply(Denied, "7", "a"), ForceReply{Token: "7"}},
		{"force", NewReply(Gone, "0"), ForceReply{Token: "0"}},

		{"fence", NewReply(Done, num(1)), FenceReply{Result: num(1)}},
		{"fence", NewReply(Done, nil), FenceReply{}},
		{"fence", NewReply(Denied, "7"), FenceReply{Last: "7"}},

		{"poll", NewReply(Done, num(50), "123", "a", "b", num(-1), num(1), "c", "d"),
			PollReply{
				Millis: 50, Time: "123", Holder: "a", Called: "b", Listeners: -1, Far: true,
				Missing: []string{"c", "d"},
			}},
		{"poll", NewReply(Done, num(-2), "123", "", "", num(1), num(0)),
			PollReply{Millis: -2, Time: "123", Listeners: 1}},
		{"poll", NewReply(Done, num(50), "123", "a", "", num(1), num(0), num(-3), num(5), num(1), num(2), "c"),
			PollReply{Millis: 50, Time: "123", Holder: "a", Listeners: 1, Permits: Permits{All: 5, Free: 1, Waiters: 2}, Missing: []string{"c"}}},

		{"sem_state", NewReply(Done, num(3), num(1), num(2), "a", num(50), "a/2", num(60)),
			SemStateReply{Permits: 3, Free: 1, Waiters: 2, Out: []Permit{{"a", 50}, {"a/2", 60}}}},
		{"rw_state", NewReply(Done, "write", num(50), "7", num(2), "a:write", "1", num(50), "a", "2", num(60)),
			RwStateReply{Writing: true, Token: 7, Waiters: 2, Holders: []RwHolder{{"a:write", 1, 50}, {"a", 2, 60}}}},
		{"rw_state", NewReply(Denied, "7", num(2)), RwStateReply{Token: 7, Waiters: 2}},

		{"vote", NewReply(Done, "7", num(1), "", "123"), VoteReply{Token: "7", Again: true, Time: "123"}},
		{"vote", NewReply(Done, "7", num(0), "5", "123"), VoteReply{Token: "7", Fresh: true, Last: "5", Time: "123"}},
		{"vote", NewReply(Done, "7", num(2)), VoteReply{Token: "7"}},
		{"vote", NewReply(Denied, num(50), "a", "5", "123"), VoteReply{Millis: 50, Owner: "a", Last: "5", Time: "123"}},

		{"leader", NewReply(Done, "a", "7", "me", num(50)),
			LeaderReply{Owner: "a", Token: "7", Value: "me", Millis: 50}},
		{"latch", NewReply(Done, num(1), "123"), LatchReply{Changed: true, Left: 1, Time: "123"}},
		{"latch", NewReply(Done, num(0), "123", "NOPERM"), LatchReply{Time: "123", Unannounced: "NOPERM"}},
		{"latch_look", NewReply(Done, num(3), num(-1)), LatchLookReply{Left: 3, Millis: -1}},
	} {
		require.Equal(t, c.want, decoders[c.decoder](c.reply), "%s of %v", c.decoder, c.reply)
	}
}

// TestPassReplyBack: what speaks for several servers makes the reply that a server would make.
func TestPassReplyBack(t *testing.T) {
	for status, p := range map[Status]PassReply{
		Done: {First: "7", Last: "9"}, Denied: {Listeners: 2, Unannounced: "NOPERM", HeadStart: 30}, Gone: {},
	} {
		r := p.Reply(status)
		require.Equal(t, status, r.Status)
		require.Equal(t, p, r.Pass())
	}
}

// TestDecodersTrustNothing: every decoder reads missing values, and those of odd types, as zero, whatever the status is.
func TestDecodersTrustNothing(t *testing.T) {
	odd := []any{nil, 1.5, true, []any{"x"}, map[any]any{}}
	for name, decode := range decoders {
		for status := Late; status <= Done; status++ {
			want := decode(Reply{Status: status})
			for n := range 12 {
				for _, v := range odd {
					got := decode(NewReply(status, slices.Repeat([]any{v}, n)...))
					if !whatever[name] {
						require.Equal(t, want, got, "%s of %d times %v", name, n, v)
					}
				}
			}
		}
	}
}

// whatever are the decoders to which each value means something: an entry of a list, or what a command replied.
var whatever = map[string]bool{
	"refusal": true, "queue refusal": true, "rw refusal": true, "poll": true, "sem_state": true, "rw_state": true,
	"fence": true,
}

// TestDecodersAllocateNothing: refusals and the replies about a free lock are decoded without an allocation.
func TestDecodersAllocateNothing(t *testing.T) {
	granted, refused := NewReply(Done, "7", "7", "5"), NewReply(Denied, num(50), "123", num(0), "a")
	voted, kept := NewReply(Done, "7", num(0), "5", "123"), NewReply(Done, "7", "9")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		g, v, p := granted.Grant(), voted.Vote(), kept.Pass()
		if g.Token+v.Token+p.First == "" || granted.Unannounced() == "" {
			t.Fail()
		}
		if a, b, c := refused.Refusal(), refused.QueueRefusal(), refused.RwRefusal(); a.Millis+b.Millis+c.Millis == 0 {
			t.Fail()
		}
	}))
}

// TestAuthProblems: what servers and proxies say of a user and a password, and what is said of something else.
func TestAuthProblems(t *testing.T) {
	for text, is := range map[string]AuthProblem{
		"NOAUTH Authentication required.":                                                           AuthMissing,
		"NOAUTH Authentication required":                                                            AuthMissing,
		"-NOAUTH Authentication required.":                                                          AuthMissing, // with the sign of an error written twice
		"NOAUTH HELLO must be called with the client":                                               AuthMissing,
		"Protocol error: unauthenticated bulk length":                                               AuthMissing,
		"ERR Protocol error: unauthenticated multibulk length":                                      AuthMissing,
		"ERR operation not permitted":                                                               AuthMissing,
		"ERR Authentication required.":                                                              AuthMissing,
		"ERR Error running script (call to f_1): @user_script:14: -NOAUTH Authentication required.": AuthMissing,

		"WRONGPASS invalid username-password pair or user is disabled.": AuthWrong,
		"ERR invalid password":                       AuthWrong,
		"ERR invalid username-password pair":         AuthWrong,
		"ERR AUTH failed: WRONGPASS at the upstream": AuthWrong,
		"ERR Authentication failed":                  AuthWrong,

		"ERR Client sent AUTH, but no password is set":                                          AuthUnwanted,
		"ERR Client sent AUTH, but no username-password pair is set":                            AuthUnwanted,
		"ERR AUTH <password> called without any password configured for the default user. Are…": AuthUnwanted,
		"ERR HELLO AUTH called without any password configured":                                 AuthUnwanted,

		"NOPERM this user has no permissions to run the 'evalsha' command": AuthFine,
		"ERR unknown command 'AUTH'":                                       AuthFine,
		"ERR the key \"invalid password\" is another's":                    AuthFine,
		"READONLY You can't write against a read only replica.":            AuthFine,
		"upstream failure": AuthFine, // Envoy, whatever happened there
	} {
		require.Equal(t, is, AuthProblemOf(fmt.Errorf("wrapped: %w", proto(text))), text)
		require.Equal(t, AuthFine, AuthProblemOf(errors.New(text)), "no server said it")
	}
	require.Equal(t, AuthFine, AuthProblemOf(nil))
}
