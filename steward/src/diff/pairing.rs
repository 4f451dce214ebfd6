//! The instances and devices of a program's report that are those of another report of it, and the names of their contexts.
//!
//! Each output numbers them in the order of creation. A program that has come to create one more first, such as an instance to look for a
//! device, would be compared with itself shifted by one: so devices are paired by their names and kinds of objects, and only where these do
//! not decide by their number.

#![forbid(unsafe_code)]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use vk_report::report::{Report, Source};

/// The names of what is below a report's instances and devices.
#[derive(Default)]
pub(super) struct PairedNames {
    /// Of each context that is no group, in order.
    pub(super) contexts: Vec<String>,
    /// Of each device with device memory, in order.
    pub(super) memory: Vec<String>,
}

/// The number of an instance and of a device of it, from 1, in both reports; 0 for the instance itself.
type AccountPlace = (usize, usize);

/// An instance or device of one report.
struct Account<'r> {
    /// The place of its instance among the instances.
    instance: usize,
    is_device: bool,
    kinds: BTreeSet<&'r str>,
    /// The device and the versions of its driver, if known.
    description: &'r str,
}

/// The names of both reports; `None` unless both are of programs.
pub(super) fn names(before: &Report, after: &Report) -> Option<[PairedNames; 2]> {
    let accounts = [accounts(before)?, accounts(after)?];
    let places = places(&accounts);
    let reports = [before, after];
    let mut kinds: BTreeMap<&str, BTreeSet<AccountPlace>> = BTreeMap::new();
    for (accounts, places) in accounts.iter().zip(&places) {
        for (account, place) in accounts.iter().zip(places) {
            for kind in &account.kinds {
                kinds.entry(kind).or_default().insert(*place);
            }
        }
    }
    let mut names = [PairedNames::default(), PairedNames::default()];
    for (names, (report, places)) in names.iter_mut().zip(reports.iter().zip(&places)) {
        let mut account = None;
        for row in &report.contexts {
            if row.group {
                account = Some(account.map_or(0, |last: usize| last.saturating_add(1)));
                continue;
            }
            let place = account.and_then(|account| places.get(account));
            let all = kinds.get(row.name.as_str()).into_iter().flatten();
            let nth = all.take_while(|other| Some(*other) != place).count();
            names.contexts.push(match nth {
                0 => row.name.clone(),
                nth => format!("{} #{}", row.name, nth.saturating_add(1)),
            });
        }
        let devices = places.iter().filter(|(_, device)| *device != 0);
        let name =
            |(instance, device): &AccountPlace| format!("instance {instance}, device {device}");
        names.memory = devices.map(name).collect();
    }
    Some(names)
}

/// The instances and devices of a program, in order.
fn accounts(report: &Report) -> Option<Vec<Account<'_>>> {
    let Source::Program { devices, .. } = &report.source else {
        return None;
    };
    let mut accounts: Vec<Account<'_>> = Vec::new();
    let mut instances = 0_usize;
    for row in &report.contexts {
        if row.group {
            let is_device = row.depth > 0;
            instances = instances.saturating_add(usize::from(!is_device));
            accounts.push(Account {
                instance: instances.saturating_sub(1),
                is_device,
                kinds: BTreeSet::new(),
                description: "",
            });
        } else if let Some(last) = accounts.last_mut() {
            last.kinds.insert(&row.name);
        }
    }
    let with_device = accounts.iter().filter(|account| account.is_device);
    // Otherwise some device has none, and it is not known which.
    if with_device.count() == devices.len() {
        let with_device = accounts.iter_mut().filter(|account| account.is_device);
        for (account, description) in with_device.zip(devices) {
            account.description = description;
        }
    }
    Some(accounts)
}

/// The places of the accounts of both reports: the first report's own, and behind them what only the second one has.
fn places([before, after]: &[Vec<Account<'_>>; 2]) -> [Vec<AccountPlace>; 2] {
    let devices = pairs_of_devices(before, after);
    let instances = pairs_of_instances(before, after, &devices);
    let own = |accounts: &[Account<'_>], instance_of: &dyn Fn(usize) -> usize| {
        let mut last = 0;
        let places = accounts.iter().map(|account| {
            last = if account.is_device { last + 1 } else { 0 };
            (instance_of(account.instance), last)
        });
        places.collect::<Vec<AccountPlace>>()
    };
    let of_before = own(before, &|instance| instance + 1);
    // Instances and devices without a partner are numbered behind all others.
    let mut next_instance = of_before
        .iter()
        .map(|(instance, _)| *instance)
        .max()
        .unwrap_or(0);
    let number_of = |instance: &Account<'_>| {
        let partner = instances.get(&instance.instance);
        partner.map(|partner| partner + 1).unwrap_or_else(|| {
            next_instance += 1;
            next_instance
        })
    };
    let own_instances = after.iter().filter(|account| !account.is_device);
    let numbers: Vec<usize> = own_instances.map(number_of).collect();
    let mut taken: BTreeSet<AccountPlace> = of_before.iter().copied().collect();
    let of_after = after.iter().enumerate().map(|(at, account)| {
        let instance = numbers.get(account.instance).copied().unwrap_or(0);
        if !account.is_device {
            return (instance, 0);
        }
        let partner = devices.get(&at).and_then(|partner| of_before.get(*partner));
        let place = partner.copied().or_else(|| {
            let free = (1..).map(|device| (instance, device));
            free.take(taken.len() + 1)
                .find(|place| !taken.contains(place))
        });
        let place = place.unwrap_or((instance, 0));
        taken.insert(place);
        place
    });
    let of_after = of_after.collect();
    [of_before, of_after]
}

/// The partner of each device of the second report in the first one: those that are most alike first, and of several the earliest.
fn pairs_of_devices(before: &[Account<'_>], after: &[Account<'_>]) -> HashMap<usize, usize> {
    let devices = |accounts: &[Account<'_>]| -> Vec<usize> {
        let all = accounts.iter().enumerate();
        all.filter(|(_, account)| account.is_device)
            .map(|(at, _)| at)
            .collect()
    };
    let mut candidates: Vec<_> = devices(before)
        .into_iter()
        .flat_map(|one| devices(after).into_iter().map(move |other| (one, other)))
        .filter_map(|(one, other)| {
            let alike = likeness(before.get(one)?, after.get(other)?);
            Some((Reverse(alike), one, other))
        })
        .collect();
    candidates.sort();
    let mut pairs = HashMap::new();
    let mut paired = BTreeSet::new();
    for (_, one, other) in candidates {
        if !pairs.contains_key(&other) && paired.insert(one) {
            pairs.insert(other, one);
        }
    }
    pairs
}

/// First the same device with the same driver, then the same device, then kinds of objects in common.
fn likeness(one: &Account<'_>, other: &Account<'_>) -> (bool, bool, usize) {
    let device = |account: &Account<'_>| {
        account
            .description
            .split(", driver ")
            .next()
            .map(str::to_owned)
    };
    let is_known = !one.description.is_empty();
    (
        is_known && one.description == other.description,
        is_known && device(one) == device(other),
        one.kinds.intersection(&other.kinds).count(),
    )
}

/// The partner of each instance of the second report: that of its devices, else the earliest without one.
fn pairs_of_instances(
    before: &[Account<'_>],
    after: &[Account<'_>],
    devices: &HashMap<usize, usize>,
) -> HashMap<usize, usize> {
    let mut pairs: HashMap<usize, usize> = HashMap::new();
    let mut paired = BTreeSet::new();
    for (at, account) in after.iter().enumerate() {
        let partner = devices.get(&at).and_then(|partner| before.get(*partner));
        if let Some(partner) = partner
            && !pairs.contains_key(&account.instance)
            && paired.insert(partner.instance)
        {
            pairs.insert(account.instance, partner.instance);
        }
    }
    let instances = |accounts: &[Account<'_>]| -> Vec<usize> {
        let own = accounts.iter().filter(|account| !account.is_device);
        own.map(|account| account.instance).collect()
    };
    let mut left = instances(before)
        .into_iter()
        .filter(|one| !paired.contains(one));
    for other in instances(after) {
        if !pairs.contains_key(&other)
            && let Some(one) = left.next()
        {
            pairs.insert(other, one);
        }
    }
    pairs
}
