package conformance_test

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"
)

// takersOf says who takes deliveries in: one process with a file, or two on a
// PostgreSQL beside a gateway. The people's API comes first.
func takersOf() map[string]func(t *testing.T, args ...string) (*gateway, []*gateway) {
	return map[string]func(t *testing.T, args ...string) (*gateway, []*gateway){
		"SQLite": func(t *testing.T, args ...string) (*gateway, []*gateway) {
			g := startGateway(t, args...)
			return g, []*gateway{g}
		},
		"PostgreSQL": func(t *testing.T, args ...string) (*gateway, []*gateway) {
			_, people, takers := newIntake(t, 2, args...)
			return people, takers
		},
	}
}

// The same delivery comes 500 times at once, and later under another id, which
// GitHub does not sign: it is one event, one run and one parcel.
func TestInboundSameDeliveryAtOnce(t *testing.T) {
	t.Parallel()
	for name, open := range takersOf() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			people, takers := open(t)
			r := people.gitHub("triage")
			d, key := r.issue(1)
			var senders sync.WaitGroup
			for n := range 500 {
				senders.Go(func() { d.taken(t, r.at(takers[n%len(takers)])) })
			}
			senders.Wait()
			people.onceEach(key)

			// What was captured, at each of the trigger's processes.
			forged := ofGitHub(r.Secret, "another-id", d.body)
			for _, g := range takers {
				forged.taken(t, r.at(g))
			}
			people.onceEach(key)
			doubled := 0
			for _, one := range rowsOf[receipt](people.api, deliveriesPath, "") {
				if one.Doubled {
					doubled++
				}
			}
			if doubled != 1 {
				t.Errorf("%d deliveries are said to be doubles, not one", doubled)
			}
		})
	}
}

// Who takes deliveries in and works them off is killed again and again. Who sent
// one and did not hear that it was kept sends it again. None is lost, and none
// has two events.
func TestInboundTakersKilled(t *testing.T) {
	t.Parallel()
	for name, open := range takersOf() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			people, takers := open(t, "--inbox-lease", "1s", "--inbox-every", "100ms")
			r := people.gitHub("triage")
			const deliveries, senders = 200, 4
			numbers, urls := make(chan int), make([]string, len(takers)) // which stay the same
			for i, g := range takers {
				urls[i] = r.at(g)
			}
			var posting sync.WaitGroup
			for s := range senders {
				posting.Go(func() {
					at := s
					for n := range numbers {
						d, _ := r.issue(n)
						for {
							got, err := d.send(t, urls[at%len(urls)])
							if err == nil && got.Status == http.StatusOK || t.Context().Err() != nil {
								break
							}
							at++ // GitHub's people press Redeliver
							time.Sleep(20 * time.Millisecond)
						}
					}
				})
			}
			moments := rand.New(rand.NewPCG(7, uint64(len(takers))))
			var keys []string
			const kills = 5
			for n := range deliveries {
				_, key := r.issue(n)
				keys = append(keys, key)
				numbers <- n
				if n%(deliveries/kills) == deliveries/kills/2 {
					time.Sleep(time.Duration(moments.IntN(60)) * time.Millisecond)
					one := takers[n/(deliveries/kills)%len(takers)]
					one.kill()
					if one == people {
						one.start()
					} else {
						one.takes()
					}
				}
			}
			close(numbers)
			posting.Wait()
			people.onceEach(keys...)
		})
	}
}
