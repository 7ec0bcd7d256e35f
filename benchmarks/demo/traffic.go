package demo

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"
)

// Shape is the traffic's form, in engine time and tokens. A token is about four bytes, as the simulated engines have it.
type Shape struct {
	Apps         int           // applications, each with a system prompt that its sessions share
	SystemTokens int           // length of a system prompt
	TurnTokens   int           // mean length of a user's turn; drawn from half to one and a half of it
	Turns        int           // turns of a session
	AnswerTokens int           // generated per turn
	Think        time.Duration // mean time from an answer's end to the next turn; exponential
}

// DefaultShape is a chat over documents: a long system prompt, turns that bring a page each, short answers.
func DefaultShape() Shape {
	return Shape{Apps: 8, SystemTokens: 1500, TurnTokens: 900, Turns: 6, AnswerTokens: 48, Think: 4 * time.Second}
}

// Session is one conversation: its turns are known beforehand, so that two policies get the same traffic.
type Session struct {
	Start  time.Duration // engine time since the phase began
	System string
	Turns  []string
	Think  []time.Duration // before each turn but the first
}

// Sessions draws the sessions that start within span at this rate of sessions per engine second (Poisson arrivals). The
// same seed gives the same sessions; label keeps the texts of two phases apart, so that no phase finds another's cache.
func (s Shape) Sessions(seed uint64, label string, rate float64, span time.Duration) []Session {
	arrivals := rand.New(rand.NewPCG(seed, 1))
	lengths := rand.New(rand.NewPCG(seed, 2))
	thinks := rand.New(rand.NewPCG(seed, 3))
	var out []Session
	for at := time.Duration(0); ; {
		at += time.Duration(arrivals.ExpFloat64() / rate * float64(time.Second))
		if at >= span {
			return out
		}
		n := len(out)
		session := Session{Start: at, System: text(fmt.Sprintf("%s application %d", label, n%s.Apps), s.SystemTokens)}
		for turn := range s.Turns {
			tokens := int(float64(s.TurnTokens) * (0.5 + lengths.Float64()))
			session.Turns = append(session.Turns, text(fmt.Sprintf("%s session %d turn %d", label, n, turn), tokens))
			session.Think = append(session.Think, time.Duration(math.Min(thinks.ExpFloat64(), 4)*float64(s.Think)))
		}
		out = append(out, session)
	}
}

// text is tokens × 4 bytes that begin with what makes them unlike all others.
func text(what string, tokens int) string {
	var b strings.Builder
	for line := 0; b.Len() < tokens*4; line++ {
		fmt.Fprintf(&b, "%s, line %d. ", what, line)
	}
	return b.String()[:tokens*4]
}
